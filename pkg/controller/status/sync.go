package status

import (
	"context"
	"fmt"

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

// held is what an object holds at a version. As long as no newer version is seen, it need not be read again.
type held struct {
	corestatus.View
	uid             types.UID
	resourceVersion string
}

// sync makes the object hold what it should.
func (c *Controller) sync(ctx context.Context, ref objref.Ref) error {
	resource, ok := c.config.Objects.Resource(ref.GroupResource())
	if !ok {
		c.returned(ref, false)
		return nil
	}
	obj, ok := c.config.Objects.Get(ref)
	if !ok {
		if c.config.Objects.Synced(ref.GroupResource()) {
			c.forget(ref)
		}
		c.returned(ref, false)
		return nil
	}
	decision := c.decide(ref)
	klog.FromContext(ctx).V(4).Info("Decided", logging.Object, ref.String(), "action", decision.Action,
		logging.Cluster, decision.Cluster, logging.Reason, decision.Reason)
	ours := labelled(obj) || c.holds(ref)
	if decision.Action == corestatus.Keep || decision.Action == corestatus.Clear && !ours {
		c.returned(ref, false)
		return nil
	}
	return c.act(ctx, resource, ref, obj, decision)
}

// decide notes an object of which something is not known before it asks, so that what becomes known meanwhile wakes it.
func (c *Controller) decide(ref objref.Ref) corestatus.Decision {
	c.mu.Lock()
	c.waiting[ref] = struct{}{}
	c.mu.Unlock()
	asked := c.config.Requests.Requests(ref)
	known := asked.Known
	decision := corestatus.Decide(ref.GroupResource(), corestatus.Evidence{
		Request:      request(asked),
		RequestKnown: asked.Known,
		Report: func(cluster string) (*corestatus.Report, bool) {
			report, reportKnown := c.config.Reports.Get(ref, cluster)
			if report == nil {
				known = known && reportKnown
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
func (c *Controller) act(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, obj metav1.Object, decision corestatus.Decision) error {
	now, read, err := c.view(ctx, resource, ref, obj)
	if apierrors.IsNotFound(err) {
		c.forget(ref)
		return nil
	}
	if err != nil {
		return err
	}
	steps := corestatus.Plan(now.View, decision)
	if read && now.Labelled && decision.Action == corestatus.Copy && len(steps) > 0 {
		settled, err := c.settled(ctx, resource, ref, now, steps)
		if err != nil {
			return err
		}
		if settled {
			steps = nil
		}
	}
	for _, step := range steps {
		c.forgetHeld(ref) // a step that fails leaves us not knowing
		answer, err := c.write(ctx, resource, ref, step, now.resourceVersion)
		if apierrors.IsNotFound(err) {
			c.forget(ref)
			return nil
		}
		if err != nil {
			return err
		}
		klog.FromContext(ctx).V(2).Info("Wrote", logging.Object, ref.String(), "step", step.String(),
			logging.Cluster, decision.Cluster, logging.Reason, decision.Reason)
		now.uid, now.resourceVersion = answer.UID, answer.ResourceVersion
	}
	if decision.Action == corestatus.Clear {
		c.forget(ref)
		return nil
	}
	// What is remembered as held is what was returned. The WDS's schema may have dropped some of it, but what is to be set
	// to null when it vanishes is what was returned.
	now.View = corestatus.View{Labelled: true, Status: decision.Status}
	c.mu.Lock()
	c.held[ref] = now
	c.mu.Unlock()
	c.returned(ref, len(steps) > 0)
	return nil
}

// view returns what the object holds: from memory if it has not changed since, otherwise it is read.
func (c *Controller) view(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, obj metav1.Object) (now held, read bool, err error) {
	c.mu.Lock()
	now, ok := c.held[ref]
	c.mu.Unlock()
	if ok && now.uid == obj.GetUID() && !newer(obj.GetResourceVersion(), now.resourceVersion) {
		return now, false, nil
	}
	current, err := c.config.Client.Resource(resource.GroupVersionResource).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return held{}, false, fmt.Errorf("read %s: %w", ref, err)
	}
	return held{
		View:            corestatus.View{Labelled: labelled(current), Status: statusOf(current)},
		uid:             current.GetUID(),
		resourceVersion: current.GetResourceVersion(),
	}, true, nil
}

// settled tells whether the steps would change nothing: the schema of the WDS may lack fields that the cluster reports, and
// its API server may insist on fields that the cluster does not have. Only the API server can tell, by a dry run.
func (c *Controller) settled(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, now held, steps []corestatus.Step) (bool, error) {
	for _, step := range steps {
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
		if _, changed := corestatus.MergePatch(now.Status, statusOf(result)); changed {
			return false, nil
		}
	}
	return true, nil
}

func (c *Controller) write(ctx context.Context, resource dynwatch.Resource, ref objref.Ref, step corestatus.Step, version string) (*metav1.PartialObjectMetadata, error) {
	body, err := step.Encode(version)
	if err != nil {
		return nil, fmt.Errorf("encode patch of %s: %w", ref, err)
	}
	target := write.Target{Resource: resource.GroupVersionResource, Namespace: ref.Namespace, Name: ref.Name}
	if step.Status {
		target.Subresource = "status"
	}
	answer, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, body, step.Reason)
	if step.Status && noSubresource(err) {
		// Remembered by nobody: "not found" may as well have meant the object, and a kind may get the subresource later.
		target.Subresource = ""
		answer, err = c.config.Writer.Patch(ctx, target, types.MergePatchType, body, step.Reason)
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

func (c *Controller) forgetHeld(ref objref.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, ref)
}

// forget drops everything that is remembered of an object that has no returned status any more.
func (c *Controller) forget(ref objref.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, ref)
	delete(c.waiting, ref)
	delete(c.since, ref)
}

// returned notes that all reports were dealt with, and by a write or not.
func (c *Controller) returned(ref objref.Ref, wrote bool) {
	c.mu.Lock()
	since, ok := c.since[ref]
	delete(c.since, ref)
	c.mu.Unlock()
	if ok && wrote {
		finalization.Observe(c.config.Clock.Since(since).Seconds())
	}
}

func request(asked match.Requests) corestatus.Request {
	return corestatus.Request{
		Singleton: corestatus.Want{Requested: asked.Singleton, Clusters: asked.SingletonClusters},
		MultiWEC:  corestatus.Want{Requested: asked.MultiWEC, Clusters: asked.MultiWECClusters},
	}
}
