package status

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// perCluster is how long the next aggregate waits for each cluster in it, so that a thousand clusters that report one after the other
// do not cost a thousand times the reading of a thousand reports. To read one takes a hundredth of that.
const perCluster = time.Millisecond

// held is what an object holds at a version. As long as no newer version is seen, it need not be read again.
type held struct {
	corestatus.View
	// whole tells that the status is known too; otherwise just the labels are.
	whole           bool
	uid             types.UID
	resourceVersion string // "" while a write is under way, or failed
	// writer is who wrote the object last besides us, where it was read.
	writer string
}

// sync makes the object hold what it should.
func (c *Controller) sync(ctx context.Context, ref objref.Ref) error {
	resource, ok := c.config.Objects.Resource(ref.GroupResource())
	if !ok {
		c.troubled(ctx, ref, "")
		c.returned(ref, false)
		return nil
	}
	obj, ok := c.config.Objects.Get(ref)
	if !ok {
		if c.config.Objects.Synced(ref.GroupResource()) {
			c.forget(ref)
			c.troubled(ctx, ref, "")
		}
		c.returned(ref, false)
		return nil
	}
	decision := c.decide(ref, corestatus.Source{UID: obj.GetUID(), Generation: obj.GetGeneration()})
	klog.FromContext(ctx).V(4).Info("Decided", logging.Object, ref.String(), "action", decision.Action,
		logging.Cluster, decision.From(), logging.Reason, decision.Reason)
	if !decision.Known || decision.Executing == "" && !labelled(obj) && !c.holds(ref) {
		c.returned(ref, false)
		if decision.Known {
			c.troubled(ctx, ref, "")
		}
		return nil
	}
	return c.act(ctx, resource, ref, obj, decision)
}

// decide notes an object of which something is not known before it asks, so that what becomes known meanwhile wakes it.
func (c *Controller) decide(ref objref.Ref, now corestatus.Source) corestatus.Decision {
	c.mu.Lock()
	c.waiting[ref] = struct{}{}
	c.mu.Unlock()
	asked := c.config.Requests.Requests(ref)
	known := asked.Known
	decision := corestatus.Decide(ref.GroupResource(), corestatus.Evidence{
		Request:      request(asked),
		RequestKnown: asked.Known,
		Now:          now,
		Report: func(cluster string) (*corestatus.Report, bool) {
			report, reportKnown := c.config.Reports.Get(ref, cluster)
			known = known && (reportKnown || report != nil)
			if report == nil {
				return nil, reportKnown
			}
			return &report.Report, reportKnown
		},
	})
	if known {
		c.mu.Lock()
		delete(c.waiting, ref)
		c.mu.Unlock()
	}
	return decision
}

// act carries the decision out, step by step. Each step is bound to the version of the object that the one before left, so a
// write by somebody else in between is never missed: it ends in a conflict, and the object is read anew.
//
// What the WDS refuses to hold of a status is left as it is there, field by field, and the rest is returned: so the status stays
// valid, whatever rules the WDS has. The user is told.
func (c *Controller) act(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, obj metav1.Object, decision corestatus.Decision) error {
	before := c.heldOf(ref)
	now, read, err := c.view(ctx, resource, ref, obj, decision.Action)
	if apierrors.IsNotFound(err) {
		c.forget(ref)
		return nil
	}
	if err != nil {
		return err
	}
	var left refusals
	for {
		after, wrote, err := c.carry(ctx, resource, ref, now, read, decision, left)
		if fields := left.add(err); fields {
			read = true // by now the object may have the labels; and the rest may be there already
			now.Labels = after.Labels
			now.resourceVersion = after.resourceVersion
			continue
		}
		switch {
		case apierrors.IsNotFound(err):
			c.forget(ref)
			return nil
		case err != nil:
			return err
		}
		c.remember(ref, after, decision)
		contested := c.contested(ref, now.writer, wrote && read && before.whole && before.same(after))
		c.troubled(ctx, ref, both(left.text(ref), contested))
		c.returned(ref, wrote)
		return nil
	}
}

// carry makes the steps that are to be made. It returns what the object holds afterwards, also if a step fails.
func (c *Controller) carry(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, now held, read bool, decision corestatus.Decision, left refusals) (_ held, wrote bool, err error) {
	steps, after := corestatus.Plan(ref.GroupResource(), now.View, decision, left.fields)
	returned := now.Returned() // not only since the step before
	for _, step := range steps {
		if step.Status && read && returned && decision.Action != corestatus.Clear {
			settled, err := c.settled(ctx, resource, ref, now, step)
			if err != nil {
				return now, wrote, err
			}
			if settled {
				continue
			}
		}
		c.doubt(ref) // a step that fails leaves us not knowing
		answer, err := c.write(ctx, resource, ref, step, now.resourceVersion)
		if err != nil {
			return now, wrote, err
		}
		wrote = true
		klog.FromContext(ctx).V(2).Info("Wrote", logging.Object, ref.String(), "step", step.String(),
			logging.Cluster, decision.From(), logging.Reason, decision.Reason)
		now.uid, now.resourceVersion = answer.UID, answer.ResourceVersion
		if !step.Status {
			now.Labels = after.Labels
		}
	}
	// What is remembered as held is what was returned. The WDS's schema may have dropped some of it, but what is to be set
	// to null when it vanishes is what was returned.
	now.View = after
	return now, wrote, nil
}

// remember notes what the object holds, unless nothing is asked of it and nothing of ours is left.
func (c *Controller) remember(ref objref.Ref, now held, decision corestatus.Decision) {
	if decision.Executing == "" && len(now.Labels) == 0 {
		c.forget(ref)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[ref] = now
	delete(c.due, ref)
	if decision.Action == corestatus.Combine {
		c.due[ref] = c.config.Clock.Now().Add(time.Duration(len(decision.Clusters)+len(decision.Silent)) * perCluster)
	}
}

// view returns what the object holds: from memory if it has not changed since, otherwise it is read; of an object whose status is
// left alone just the labels.
func (c *Controller) view(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, obj metav1.Object, action corestatus.Action) (now held, read bool, err error) {
	now = c.heldOf(ref)
	current := now.resourceVersion != "" && now.uid == obj.GetUID() && !newer(obj.GetResourceVersion(), now.resourceVersion)
	labels := now.Labels
	if !current {
		labels = corestatus.OwnLabels(obj.GetLabels())
	}
	untouched := action == corestatus.Keep || action == corestatus.Clear && !corestatus.View{Labels: labels}.Returned()
	switch {
	case current && (now.whole || untouched):
		return now, false, nil
	case untouched:
		return held{View: corestatus.View{Labels: labels}, uid: obj.GetUID(), resourceVersion: obj.GetResourceVersion()}, false, nil
	}
	whole, err := c.config.Client.Resource(resource.GroupVersionResource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return held{}, false, fmt.Errorf("read %s: %w", ref, err)
	}
	return held{
		View:            corestatus.View{Labels: corestatus.OwnLabels(whole.GetLabels()), Status: statusOf(whole)},
		whole:           true,
		uid:             whole.GetUID(),
		resourceVersion: whole.GetResourceVersion(),
		writer:          otherWriter(whole),
	}, true, nil
}

// settled tells whether the step would change nothing: the schema of the WDS may lack fields that the cluster reports, and
// its API server may insist on fields that the cluster does not have. Only the API server can tell, by a dry run.
func (c *Controller) settled(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, now held, step corestatus.Step) (bool, error) {
	body, err := step.Encode(now.resourceVersion)
	if err != nil {
		return false, fmt.Errorf("encode patch of %s: %w", ref, err)
	}
	objects := c.config.Client.Resource(resource.GroupVersionResource).Namespace(ref.Namespace)
	options := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationIgnore}
	result, err := objects.Patch(ctx, ref.Name, types.MergePatchType, body, options, "status")
	if noSubresource(err) {
		result, err = objects.Patch(ctx, ref.Name, types.MergePatchType, body, options)
	}
	if err != nil {
		return false, fmt.Errorf("try to patch status of %s: %w", ref, err)
	}
	_, changed := corestatus.MergePatch(now.Status, statusOf(result))
	return !changed, nil
}

func (c *Controller) write(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, step corestatus.Step, version string) (*metav1.PartialObjectMetadata, error) {
	body, err := step.Encode(version)
	if err != nil {
		return nil, fmt.Errorf("encode patch of %s: %w", ref, err)
	}
	target := write.Target{Resource: resource.GroupVersionResource, Namespace: ref.Namespace, Name: ref.Name}
	if !step.Status {
		return c.writeObject(ctx, target, body, step.Reason)
	}
	target.Subresource = "status"
	answer, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, body, step.Reason)
	if noSubresource(err) {
		// Remembered by nobody: "not found" may as well have meant the object, and a kind may get the subresource later.
		target.Subresource = ""
		return c.writeObject(ctx, target, body, step.Reason)
	}
	return answer, err
}

// noSubresource tells whether the error may be what an API server says of a kind without status subresource.
func noSubresource(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// newer tells whether a is a later version of an object than b; versions that cannot be compared are newer when they differ.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a != b
	}
	return order > 0
}

// statusOf returns the status of the object, nil if it has none or one that is no object.
func statusOf(obj *unstructured.Unstructured) map[string]any {
	status, _ := obj.Object["status"].(map[string]any)
	return status
}

// holds tells whether what the object holds is remembered.
func (c *Controller) holds(ref objref.Ref) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.held[ref]
	return ok
}

// heldOf returns what is remembered of the object, the zero value for nothing.
func (c *Controller) heldOf(ref objref.Ref) held {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[ref]
}

// doubt notes that it is not known what the object holds. What was returned last stays known.
func (c *Controller) doubt(ref objref.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.held[ref]; ok {
		now.resourceVersion = ""
		c.held[ref] = now
	}
}

// forget drops everything that is remembered of an object that has no returned status any more.
func (c *Controller) forget(ref objref.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, ref)
	delete(c.waiting, ref)
	delete(c.since, ref)
	delete(c.due, ref)
	delete(c.contests, ref)
}

// returned notes that all reports were dealt with, and by a write or not.
func (c *Controller) returned(ref objref.Ref, wrote bool) {
	c.mu.Lock()
	since, ok := c.since[ref]
	delete(c.since, ref)
	c.mu.Unlock()
	if ok && wrote {
		finalization.Observe(c.config.Clock.Since(since.at).Seconds())
	}
}

func request(asked match.Requests) corestatus.Request {
	return corestatus.Request{
		Singleton: corestatus.Want{Requested: asked.Singleton, Clusters: asked.SingletonClusters},
		MultiWEC:  corestatus.Want{Requested: asked.MultiWEC, Clusters: asked.MultiWECClusters},
	}
}
