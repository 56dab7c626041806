package binding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Create(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Patch(ctx context.Context, t write.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t write.Target, uid types.UID, reason string) error
}

// Reasons of writes, as the metric counts them.
const (
	reasonFinalizer   = "finalizer"
	reasonPlaced      = "placed"
	reasonSet         = "set"
	reasonVersions    = "versions"
	reasonDeleted     = "policy-deleted"
	reasonStatus      = "status"
	reasonNameTaken   = "name-taken"
	reasonAnnotations = "annotations"
	reasonReleased    = "released"
)

// settled identifies a state in which the Binding was as it should be, so that looking again needs no computation.
type settled struct {
	revision   uint64
	uid        types.UID
	generation int64
}

// sync brings one policy up to date and tells when to look again; 0 for no need.
func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	in, ok, after := c.gather(name)
	if !ok {
		return after, nil
	}
	if in.policy.DeletionTimestamp != nil {
		return c.deletePolicy(ctx, in)
	}
	p := decide(in)
	done, err := c.act(ctx, in, p)
	if err != nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
		return 0, err
	}
	p.after.at(done.settling)
	return p.after.duration(), errors.Join(err, c.writeStatus(ctx, in, done, statusOf(in, done), &p.after))
}

// gather reads what is known; never the API server. ok is false if there is nothing to do, or not yet: then the answer to
// come back, or an event, follows.
func (c *Controller) gather(name string) (in *input, ok bool, after time.Duration) {
	policy := c.policy(name)
	if policy == nil {
		return nil, false, 0
	}
	binding := c.binding(name)
	bindingVersion := ""
	if binding != nil {
		bindingVersion = binding.ResourceVersion
	}
	if c.writes.behind(policyWrite(name), policy.ResourceVersion) || c.writes.behind(bindingWrite(name), bindingVersion) {
		return nil, false, patience
	}

	told, _ := c.spec(name)
	if told.version != versionOfPolicy(policy) {
		return nil, false, 0 // the handler is about to tell the index, and to enqueue
	}
	in = &input{
		policy:        policy,
		binding:       binding,
		invalid:       told.invalid,
		now:           c.config.Clock.Now(),
		waitSet:       c.pace.untilSet(name),
		waitVersions:  c.pace.untilVersions(name),
		isUnread:      c.isUnread,
		unreadCluster: c.inventory.unread,
		byItself:      c.departures.byItself,
		withOthers:    c.departures.withOthers,
	}
	in.valve, in.mistakes = corebinding.ParseValve(policy.Annotations)
	if told.compiled == nil {
		return in, true, 0
	}
	in.unserved = match.Unserved(&policy.Spec, served{c.config.API, c.config.Selectable})
	in.unread = c.unread(told.compiled, policy, binding)
	in.unreadFor = c.noteUnread(name, len(in.unread) > 0, in.now)
	if len(in.unread) == 0 {
		in.miscounts = c.config.Index.Miscounts(name, maxMiscounts)
		if in.isSettled = c.isSettled(name, binding); in.isSettled {
			return in, true, 0
		}
	}
	in.selected, ok = c.config.Index.Snapshot(name)
	return in, ok, 0
}

// noteUnread returns for how long something has been unread that matters to the policy.
func (c *Controller) noteUnread(name string, unread bool, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !unread {
		delete(c.unreadSince, name)
		return 0
	}
	since, known := c.unreadSince[name]
	if !known {
		since = now
		c.unreadSince[name] = since
	}
	return now.Sub(since)
}

// isSettled tells whether the Binding is known to be as it should be.
func (c *Controller) isSettled(name string, binding *controlv1alpha1.Binding) bool {
	revision, ok := c.config.Index.Revision(name)
	if !ok || binding == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled[name] == settled{revision, binding.UID, binding.Generation}
}

// unread lists what the policy could select, or its Binding holds, and what was not read since the start. Sorted.
func (c *Controller) unread(compiled *match.Policy, policy *controlv1alpha1.BindingPolicy, binding *controlv1alpha1.Binding) []string {
	var inventories []string
	if len(policy.Spec.ClusterSelectors) > 0 || binding != nil && len(binding.Spec.Destinations) > 0 {
		inventories = c.inventory.missing()
	}
	resources := c.config.API.Resources()
	if len(resources) == 0 {
		return append([]string{"the API of the WDS"}, inventories...)
	}
	kinds := map[schema.GroupResource]struct{}{}
	for gr := range resources {
		if compiled.Reaches(gr) && c.isUnread(gr) {
			kinds[gr] = struct{}{}
		}
	}
	for _, gr := range boundResources(binding) {
		if c.isUnread(gr) {
			kinds[gr] = struct{}{}
		}
	}
	unread := make([]string, 0, len(kinds))
	for gr := range kinds {
		unread = append(unread, gr.String())
	}
	for _, group := range c.config.API.Unknown() {
		if compiled.ReachesGroup(group) {
			unread = append(unread, "API group "+group)
		}
	}
	slices.Sort(unread)
	return append(unread, inventories...)
}

// isUnread tells whether nothing may be concluded about the objects of a resource. A resource that the WDS was seen not to
// serve, or that is no workload, has no objects: that is knowledge.
func (c *Controller) isUnread(gr schema.GroupResource) bool {
	if c.config.Index.Known(gr) || !c.config.Selectable(gr) {
		return false
	}
	if _, watched := c.config.API.Resources()[gr]; watched {
		return true
	}
	_, known := c.config.API.Serves(&gr.Group, gr.Resource)
	return !known
}

// served answers for package match.
type served struct {
	API
	selectable func(schema.GroupResource) bool
}

// Selects implements match.API.
func (s served) Selects(group *string, resource string) bool {
	for gr := range s.Resources() {
		if (group == nil || *group == gr.Group) && (resource == "" || resource == gr.Resource) && s.selectable(gr) {
			return true
		}
	}
	return false
}

// done is what act did.
type done struct {
	// policyVersion is the resourceVersion of the policy now.
	policyVersion string
	// binding is the Binding now; nil if there is none.
	binding *controlv1alpha1.Binding
	// settling is how long the transport is given to take notice of the last write before the policy is said to be not
	// ready.
	settling time.Duration
	// held is what the safety valve holds.
	held *corebinding.Loss
	// err is why the Binding could not be written.
	err error
}

// act carries out the plan.
func (c *Controller) act(ctx context.Context, in *input, p *plan) (done, error) {
	name := in.policy.Name
	logger := klog.FromContext(ctx)
	d := done{policyVersion: in.policy.ResourceVersion, binding: in.binding, held: p.held}
	if p.addFinalizer {
		finalizers := append(slices.Clone(in.policy.Finalizers), controlv1alpha1.BindingPolicyFinalizer)
		meta, err := c.patchFinalizers(ctx, in.policy, finalizers)
		if err != nil {
			return d, err
		}
		d.policyVersion = meta.ResourceVersion
	}
	if p.write == nil {
		if p.settled {
			c.settle(name, in)
		}
		d.settling = max(0, in.waitVersions)
		return d, nil
	}
	target := write.Target{Resource: controlv1alpha1.Bindings, Name: name}
	var meta *metav1.PartialObjectMetadata
	if in.binding == nil {
		meta, d.err = c.config.Writer.Create(ctx, target, p.write, p.reason)
	} else {
		meta, d.err = c.config.Writer.Update(ctx, target, p.write, p.reason)
	}
	if d.err != nil {
		return d, d.err
	}
	c.pace.note(name)
	c.writes.wrote(bindingWrite(name), meta.ResourceVersion)
	logger.V(2).Info("Wrote Binding", logging.Reason, p.reason, "objects", countObjects(&p.write.Spec), "clusters", len(p.write.Spec.Destinations))
	d.binding = p.write
	d.binding.ObjectMeta = meta.ObjectMeta
	d.settling = betweenVersions
	if p.release {
		logger.Info("Released what the safety valve held")
		// It was about this one change; the same one again must be asked for again.
		meta, err := c.patchMetadata(ctx, in.policy.Name, d.policyVersion,
			map[string]any{"annotations": map[string]any{controlv1alpha1.AnnotationReleaseHeld: nil}}, reasonReleased)
		if err != nil {
			return d, err
		}
		d.policyVersion = meta.ResourceVersion
	}
	return d, nil
}

func (c *Controller) settle(name string, in *input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled[name] = settled{in.selected.Revision, in.binding.UID, in.binding.Generation}
}

// deletePolicy takes the Binding away, waits until it is gone, and lets the policy go.
func (c *Controller) deletePolicy(ctx context.Context, in *input) (time.Duration, error) {
	name := in.policy.Name
	if !slices.Contains(in.policy.Finalizers, controlv1alpha1.BindingPolicyFinalizer) {
		return 0, nil
	}
	binding := in.binding
	if binding == nil {
		// A cache may be behind; the policy must not go before its Binding.
		live, err := c.config.Live(ctx, name)
		if err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("read Binding: %w", err)
		}
		if err == nil {
			binding = live
		}
	}
	if binding == nil || !ownedBy(binding, string(in.policy.UID)) {
		finalizers := slices.DeleteFunc(slices.Clone(in.policy.Finalizers), func(f string) bool {
			return f == controlv1alpha1.BindingPolicyFinalizer
		})
		_, err := c.patchFinalizers(ctx, in.policy, finalizers)
		if err == nil {
			klog.FromContext(ctx).V(2).Info("BindingPolicy deleted")
		}
		return 0, ignoreNotFound(err)
	}
	if annotations, changed := corebinding.Annotate(binding.Annotations, in.policy.Annotations); changed {
		// How it leaves may be said while it does.
		annotated := binding.DeepCopy()
		annotated.TypeMeta, annotated.Annotations = bindingType, annotations
		meta, err := c.config.Writer.Update(ctx, write.Target{Resource: controlv1alpha1.Bindings, Name: name}, annotated, reasonAnnotations)
		if ignoreNotFound(err) != nil {
			return 0, err
		}
		if err == nil {
			c.writes.wrote(bindingWrite(name), meta.ResourceVersion)
		}
	}
	if binding.DeletionTimestamp == nil && !c.wasDeleted(name, binding.UID) {
		target := write.Target{Resource: controlv1alpha1.Bindings, Name: name}
		if err := c.config.Writer.Delete(ctx, target, binding.UID, reasonDeleted); ignoreNotFound(err) != nil {
			return 0, err
		}
		c.noteDeleted(name, binding.UID)
		klog.FromContext(ctx).V(2).Info("Deleted Binding", logging.Reason, reasonDeleted)
	}
	in.binding = binding
	var after soonest
	d := done{policyVersion: in.policy.ResourceVersion, binding: binding}
	err := c.writeStatus(ctx, in, d, statusOf(in, d), &after)
	// Its end is an event; looking again now and then heals a lost one.
	after.at(30 * time.Second)
	return after.duration(), ignoreNotFound(err)
}

func (c *Controller) wasDeleted(name string, uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted[name] == uid
}

func (c *Controller) noteDeleted(name string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted[name] = uid
}

func (c *Controller) patchFinalizers(ctx context.Context, policy *controlv1alpha1.BindingPolicy, finalizers []string) (*metav1.PartialObjectMetadata, error) {
	return c.patchMetadata(ctx, policy.Name, policy.ResourceVersion, map[string]any{"finalizers": finalizers}, reasonFinalizer)
}

// patchMetadata changes metadata of a policy of that version.
func (c *Controller) patchMetadata(ctx context.Context, name, version string, metadata map[string]any, reason string) (*metav1.PartialObjectMetadata, error) {
	metadata["resourceVersion"] = version
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	target := write.Target{Resource: controlv1alpha1.BindingPolicies, Name: name}
	meta, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, patch, reason)
	if err == nil {
		c.writes.wrote(policyWrite(name), meta.ResourceVersion)
	}
	return meta, err
}

// writeStatus writes the status if it means something else than the stored one.
func (c *Controller) writeStatus(ctx context.Context, in *input, d done, want *controlv1alpha1.BindingPolicyStatus, after *soonest) error {
	if want == nil {
		after.at(patienceUnread - in.unreadFor)
		return nil
	}
	if equalStatus(&in.policy.Status, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": d.policyVersion},
		"status": map[string]any{
			"conditions":         want.Conditions,
			"observedGeneration": want.ObservedGeneration,
			"errors":             want.Errors, // null if none: it removes those that were
		},
	})
	if err != nil {
		return err
	}
	target := write.Target{Resource: controlv1alpha1.BindingPolicies, Name: in.policy.Name, Subresource: "status"}
	meta, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, patch, reasonStatus)
	if err == nil {
		c.writes.wrote(policyWrite(in.policy.Name), meta.ResourceVersion)
	}
	return err
}

func (c *Controller) policy(name string) *controlv1alpha1.BindingPolicy {
	item, _, _ := c.config.Policies.GetStore().GetByKey(name)
	policy, _ := item.(*controlv1alpha1.BindingPolicy)
	return policy
}

func (c *Controller) binding(name string) *controlv1alpha1.Binding {
	item, _, _ := c.config.Bindings.GetStore().GetByKey(name)
	binding, _ := item.(*controlv1alpha1.Binding)
	return binding
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
