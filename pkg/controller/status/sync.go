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

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/writer"
)

// perCluster is how long the next aggregate waits for each cluster in it. So a thousand clusters
// that report one after the other do not cost a thousand times reading a thousand reports. Reading
// one report takes a hundredth of that.
const perCluster = time.Millisecond

// readingTime is for how long after the start aggregates wait for clusters of which nothing is
// known. Without it each restart would write them twice.
const readingTime = 10 * time.Second

// held is the content of an object at a version. While no newer version is observed, it is not read
// again.
type held struct {
	corestatus.View
	// whole reports whether the status is known too, not only the labels.
	whole           bool
	uid             types.UID
	resourceVersion string // "" while a write is under way, or failed
	// writer is the field manager that wrote the object last besides us, if the object was read.
	writer string
}

// sync makes the object hold what it should. What the WDS refuses is reported and retried later.
func (c *Controller) sync(ctx context.Context, ref objref.Ref) (worker.Result, error) {
	err := c.reconcile(ctx, ref)
	refusal := asRefusal(ref, err)
	if refusal == nil {
		return worker.Result{}, err
	}
	c.setStatusError(ctx, ref, refusal.text)
	c.returned(ref, false)
	return worker.Result{After: refusal.after}, nil
}

func (c *Controller) reconcile(ctx context.Context, ref objref.Ref) error {
	resource, ok := c.config.Objects.Resource(ref.GroupResource())
	if !ok {
		c.setStatusError(ctx, ref, "")
		c.returned(ref, false)
		return nil
	}
	obj, ok := c.config.Objects.Get(ref)
	if !ok {
		if c.config.Objects.Synced(ref.GroupResource()) {
			c.forget(ref)
			c.setStatusError(ctx, ref, "")
		}
		c.returned(ref, false)
		return nil
	}
	decision := c.decide(ref, corestatus.Source{UID: obj.GetUID(), Generation: obj.GetGeneration()})
	klog.FromContext(ctx).V(4).Info("Decided", "action", decision.Action,
		logging.Cluster, decision.From(), logging.Reason, decision.Reason)
	_, holds := c.heldOf(ref)
	if !decision.Known || decision.Executing == "" && !labelled(obj) && !holds {
		c.returned(ref, false)
		if decision.Known {
			c.setStatusError(ctx, ref, "")
		}
		return nil
	}
	return c.act(ctx, resource, ref, obj, decision)
}

// decide marks an object as waiting before it reads, so that what becomes known meanwhile requeues
// it.
func (c *Controller) decide(ref objref.Ref, now corestatus.Source) corestatus.Decision {
	c.mu.Lock()
	c.waiting[ref] = struct{}{}
	c.mu.Unlock()
	asked := c.config.Requests.Requests(ref)
	known := asked.Known
	decision := corestatus.Decide(ref.GroupResource(), corestatus.Evidence{
		Requests: asked,
		Now:      now,
		Reading:  c.config.Clock.Since(c.started) < readingTime,
		Report: func(cluster string) (*corestatus.Report, bool) {
			report, reportKnown := c.config.Reports.Get(ref, now.UID, cluster)
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

// act carries the decision out, step by step. Each step is bound to the version of the object that
// the step before left. So a write by another client in between is never missed: it causes a
// conflict, and the object is read again.
//
// Fields of the status that the WDS refuses keep their values there, and the rest is returned. So
// the status stays valid, whatever rules the WDS has. The user is notified.
func (c *Controller) act(ctx context.Context, resource dynamicinformer.Resource, ref objref.Ref, obj metav1.Object, decision corestatus.Decision) error {
	before, _ := c.heldOf(ref)
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
			read = true // the object may have the labels now, and perhaps the other fields
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
		c.setStatusError(ctx, ref, joined(left.message(ref), contested))
		c.returned(ref, wrote)
		return nil
	}
}

// carry makes the planned steps. It returns what the object holds afterwards, also if a step fails.
func (c *Controller) carry(ctx context.Context, resource dynamicinformer.Resource, ref objref.Ref, now held, read bool, decision corestatus.Decision, left refusals) (_ held, wrote bool, err error) {
	steps, after := corestatus.Plan(ref.GroupResource(), now.View, decision, left.fields)
	returned := now.Returned() // not only since the step before
	for _, step := range steps {
		if step.Status && read && returned && decision.Action != corestatus.Clear {
			upToDate, err := c.upToDate(ctx, resource, ref, now, step)
			if err != nil {
				return now, wrote, err
			}
			if upToDate {
				continue
			}
		}
		c.doubt(ref) // after a failed step the content is unknown
		answer, err := c.write(ctx, resource, ref, step, now.resourceVersion)
		if err != nil {
			return now, wrote, err
		}
		wrote = true
		klog.FromContext(ctx).V(2).Info("Wrote", "step", step.String(),
			logging.Cluster, decision.From(), logging.Reason, decision.Reason)
		now.uid, now.resourceVersion = answer.UID, answer.ResourceVersion
		if !step.Status {
			now.Labels = after.Labels
		}
	}
	// What was returned is remembered as held, although the WDS's schema may have dropped some of
	// it: a field that was returned is set to null when it is no longer reported.
	now.View = after
	return now, wrote, nil
}

// remember records what the object holds, unless no status is requested and nothing of ours is
// left.
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

// view returns what the object holds: from memory if it has not changed since, otherwise from the
// API server. If the status will not be changed, view returns only the labels.
func (c *Controller) view(ctx context.Context, resource dynamicinformer.Resource, ref objref.Ref, obj metav1.Object, action corestatus.Action) (now held, read bool, err error) {
	now, _ = c.heldOf(ref)
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

// upToDate reports whether the step would change nothing: the schema of the WDS may lack fields
// that the cluster reports, and its API server may add fields that the cluster does not have. Only
// a dry run shows that.
func (c *Controller) upToDate(ctx context.Context, resource dynamicinformer.Resource, ref objref.Ref, now held, step corestatus.Step) (bool, error) {
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

func (c *Controller) write(ctx context.Context, resource dynamicinformer.Resource, ref objref.Ref, step corestatus.Step, version string) (answer *metav1.PartialObjectMetadata, err error) {
	body, err := step.Encode(version)
	if err != nil {
		return nil, fmt.Errorf("encode patch of %s: %w", ref, err)
	}
	c.config.Versions.StatusWriting(ref, version)
	defer func() {
		left := ""
		if err == nil && answer != nil {
			left = answer.ResourceVersion
		}
		c.config.Versions.StatusWritten(ref, left)
	}()
	target := writer.Target{Resource: resource.GroupVersionResource, Namespace: ref.Namespace, Name: ref.Name}
	if !step.Status {
		return c.writeObject(ctx, target, body, step.Reason)
	}
	target.Subresource = "status"
	answer, err = c.config.Writer.Patch(ctx, target, types.MergePatchType, body, step.Reason)
	if noSubresource(err) {
		// This is not cached: "not found" may have meant the object, and a kind may get the
		// subresource later.
		target.Subresource = ""
		return c.writeObject(ctx, target, body, step.Reason)
	}
	return answer, err
}

// noSubresource reports whether the error may mean that the kind has no status subresource.
func noSubresource(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// newer reports whether a is a later version of an object than b. Versions that cannot be compared
// are newer if they differ.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a != b
	}
	return order > 0
}

// statusOf returns the status of the object, nil if it has none, or one that is not an object.
func statusOf(obj *unstructured.Unstructured) map[string]any {
	status, _ := obj.Object["status"].(map[string]any)
	return status
}

// heldOf returns the remembered content of the object, or the zero value.
func (c *Controller) heldOf(ref objref.Ref) (now held, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, ok = c.held[ref]
	return now, ok
}

// doubt marks the content of the object as unknown. What was returned last stays known.
func (c *Controller) doubt(ref objref.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, ok := c.held[ref]; ok {
		now.resourceVersion = ""
		c.held[ref] = now
	}
}

// forget drops everything about an object that no longer has a returned status.
func (c *Controller) forget(ref objref.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, ref)
	delete(c.waiting, ref)
	delete(c.since, ref)
	delete(c.due, ref)
	delete(c.contests, ref)
}

// returned records that all reports have been processed, and whether that took a write.
func (c *Controller) returned(ref objref.Ref, wrote bool) {
	c.mu.Lock()
	since, ok := c.since[ref]
	delete(c.since, ref)
	c.mu.Unlock()
	if ok && wrote {
		finalization.Observe(c.config.Clock.Since(since.at).Seconds())
	}
}
