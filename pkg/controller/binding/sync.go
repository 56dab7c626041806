package binding

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	reasonEmpty       = "empty"
	reasonDeleted     = "policy-deleted"
	reasonStatus      = "status"
	reasonNameTaken   = "name-taken"
	reasonAnnotations = "annotations"
	reasonReleased    = "released"
)

// settled identifies a state in which the Bindings were as they should be, so that looking again needs no computation.
type settled struct {
	revision uint64
	bindings string
}

func settledAt(revision uint64, bindings []*controlv1alpha1.Binding) settled {
	var state strings.Builder
	for _, b := range bindings {
		fmt.Fprintf(&state, "%s %d ", b.UID, b.Generation)
	}
	return settled{revision, state.String()}
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
	c.noteTakers(name, in.takers, in.now)
	done, err := c.act(ctx, in, p)
	if err != nil && (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) {
		return 0, err
	}
	p.after.at(done.settling)
	p.after.at(in.troublesAgain)
	return p.after.duration(), errors.Join(err, c.writeStatus(ctx, in, done, statusOf(in, done), &p.after))
}

// gather reads what is known; never the API server. ok is false if there is nothing to do, or not yet: then the answer to
// come back, or an event, follows.
func (c *Controller) gather(name string) (in *input, ok bool, after time.Duration) {
	policy := c.policy(name)
	if policy == nil {
		return nil, false, 0
	}
	binding, overflow := c.binding(name), c.overflow(policy)
	if c.behind(policy, binding, overflow) {
		return nil, false, patience
	}

	told, _ := c.spec(name)
	if told.version != versionOfPolicy(policy) {
		return nil, false, 0 // the handler is about to tell the index, and to enqueue
	}
	in = &input{
		policy:        policy,
		binding:       binding,
		overflow:      overflow,
		maxSize:       c.config.MaxBindingSize,
		taken:         func(name string) bool { return c.binding(name) != nil },
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
	in.valve.Begun = c.begunOf(name)
	in.collectors = c.collectorsOf(policy)
	in.troubles, in.troublesAgain = c.troublesOf(policy)
	if told.compiled == nil {
		return in, true, 0
	}
	in.unserved = match.Unserved(&policy.Spec, served{c.config.API, c.config.Selectable})
	in.unread = c.unread(told.compiled, policy, in.bindings())
	in.unreadFor = c.noteUnread(name, len(in.unread) > 0, in.now)
	if len(in.unread) == 0 {
		in.miscounts = c.config.Index.Miscounts(name, maxMiscounts)
		if in.isSettled = c.isSettled(name, in); in.isSettled {
			return in, true, 0
		}
	}
	in.selected, ok = c.config.Index.Snapshot(name)
	in.takers = c.takersOf(name, corebinding.Unite(specsOf(in.bindings())), in.now)
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

// behind tells whether the caches lack something of what we wrote last.
func (c *Controller) behind(policy *controlv1alpha1.BindingPolicy, binding *controlv1alpha1.Binding, overflow []*controlv1alpha1.Binding) bool {
	bindingVersion := ""
	if binding != nil {
		bindingVersion = binding.ResourceVersion
	}
	behind := c.writes.behind(policyWrite(policy.Name), policy.ResourceVersion)
	behind = c.writes.behind(bindingWrite(policy.Name), bindingVersion) || behind
	for _, b := range overflow {
		behind = c.writes.behind(bindingWrite(b.Name), b.ResourceVersion) || behind
	}
	// Of several new ones the last is the last that a cache shows.
	next, _ := nextOverflow(policy.Name, 1, func(name string) bool { return c.binding(name) != nil })
	return c.writes.behind(bindingWrite(next), "") || behind
}

// isSettled tells whether the Bindings are known to be as they should be.
func (c *Controller) isSettled(name string, in *input) bool {
	revision, ok := c.config.Index.Revision(name)
	if !ok || in.binding == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled[name] == settledAt(revision, in.bindings())
}

// unread lists what the policy could select, or its Bindings hold, and what was not read since the start. Sorted.
func (c *Controller) unread(compiled *match.Policy, policy *controlv1alpha1.BindingPolicy, bindings []*controlv1alpha1.Binding) []string {
	var inventories []string
	placed := slices.ContainsFunc(bindings, func(b *controlv1alpha1.Binding) bool { return len(b.Spec.Destinations) > 0 })
	if len(policy.Spec.ClusterSelectors) > 0 || placed {
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
	for _, gr := range boundResources(bindings) {
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
	// binding says what the policy's Bindings say together now; nil if there are none.
	binding *controlv1alpha1.Binding
	// settling is how long the transport is given to take notice of the last write before the policy is said to be not
	// ready.
	settling time.Duration
	// held is what the safety valve holds.
	held *corebinding.Loss
	err  error
}

// act carries out a plan. Its error is also in what it returns if it kept a Binding from being written.
func (c *Controller) act(ctx context.Context, in *input, p *plan) (done, error) {
	name := in.policy.Name
	d := done{policyVersion: in.policy.ResourceVersion, binding: in.merged(), held: p.held}
	if p.addFinalizer {
		finalizers := append(slices.Clone(in.policy.Finalizers), controlv1alpha1.BindingPolicyFinalizer)
		meta, err := c.patchFinalizers(ctx, in.policy, finalizers)
		if err != nil {
			d.err = err
			return d, err
		}
		d.policyVersion = meta.ResourceVersion
	}
	if p.settled {
		c.settle(name, in)
	}
	d.settling = max(0, in.waitVersions)
	if len(p.writes) > 0 {
		c.begin(name, p.released)
		d.err = c.writeBindings(ctx, in, p.writes)
		d.binding = in.merged()
		if d.err != nil {
			return d, d.err
		}
		d.settling = betweenVersions
	}
	if p.spent {
		meta, err := c.patchMetadata(ctx, in.policy.Name, d.policyVersion,
			map[string]any{"annotations": map[string]any{controlv1alpha1.AnnotationReleaseHeld: nil}}, reasonReleased)
		if err != nil {
			return d, err
		}
		d.policyVersion = meta.ResourceVersion
		c.begin(name, nil)
		klog.FromContext(ctx).Info("Nothing is held any more; removed the annotation that releases it")
	}
	return d, nil
}

// begin notes what was released of a policy and is about to be written; nil for nothing more. Several Bindings are not written at
// once, and what is left of the change must not be held again.
func (c *Controller) begin(name string, released *corebinding.Loss) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if released == nil {
		delete(c.begun, name)
	} else if begun := c.begun[name]; begun == nil || !released.Within(begun) {
		c.begun[name] = released
	}
}

func (c *Controller) begunOf(name string) *corebinding.Loss {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun[name]
}

// writeBindings makes the changes, and notes in the input what the Bindings are afterwards. The first that fails ends it: the
// next attempt begins with what is there then.
func (c *Controller) writeBindings(ctx context.Context, in *input, changes []bindingChange) error {
	for _, change := range changes {
		if change.after == nil {
			target := write.Target{Resource: controlv1alpha1.Bindings, Name: change.before.Name}
			if err := c.deleteBinding(ctx, target, change.before, change.reason); err != nil {
				return err
			}
			continue
		}
		target := write.Target{Resource: controlv1alpha1.Bindings, Name: change.after.Name}
		do := c.config.Writer.Update
		if change.before == nil {
			do = c.config.Writer.Create
		}
		meta, err := do(ctx, target, change.after, change.reason)
		if err != nil {
			return err
		}
		c.pace.note(in.policy.Name)
		c.writes.wrote(bindingWrite(target.Name), meta.ResourceVersion)
		klog.FromContext(ctx).V(2).Info("Wrote Binding", logging.Binding, target.Name, logging.Reason, change.reason,
			"objects", countObjects(&change.after.Spec), "clusters", len(change.after.Spec.Destinations))
		change.after.ObjectMeta = meta.ObjectMeta
		switch {
		case target.Name == in.policy.Name:
			in.binding = change.after
		case change.before == nil:
			in.overflow = append(in.overflow, change.after)
		default:
			in.overflow[slices.Index(in.overflow, change.before)] = change.after
		}
	}
	return nil
}

func (c *Controller) settle(name string, in *input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled[name] = settledAt(in.selected.Revision, in.bindings())
}

// deleteBinding deletes a Binding, once.
func (c *Controller) deleteBinding(ctx context.Context, target write.Target, binding *controlv1alpha1.Binding, reason string) error {
	if binding.DeletionTimestamp != nil || c.wasDeleted(binding) {
		return nil
	}
	if err := c.config.Writer.Delete(ctx, target, binding.UID, reason); ignoreNotFound(err) != nil {
		return err
	}
	c.noteDeleted(binding)
	klog.FromContext(ctx).V(2).Info("Deleted Binding", logging.Binding, target.Name, logging.Reason, reason)
	return nil
}

// deletePolicy takes the Bindings away, waits until they are gone, and lets the policy go.
func (c *Controller) deletePolicy(ctx context.Context, in *input) (time.Duration, error) {
	if !slices.Contains(in.policy.Finalizers, controlv1alpha1.BindingPolicyFinalizer) {
		return 0, nil
	}
	bindings := in.bindings()
	if len(bindings) == 0 {
		// A cache may be behind; the policy must not go before its Bindings.
		live, err := c.config.Live(ctx, in.policy)
		if err != nil {
			return 0, fmt.Errorf("read Bindings: %w", err)
		}
		bindings = live
	}
	if len(bindings) == 0 {
		finalizers := slices.DeleteFunc(slices.Clone(in.policy.Finalizers), func(f string) bool {
			return f == controlv1alpha1.BindingPolicyFinalizer
		})
		_, err := c.patchFinalizers(ctx, in.policy, finalizers)
		if err == nil {
			klog.FromContext(ctx).V(2).Info("BindingPolicy deleted")
		}
		return 0, ignoreNotFound(err)
	}
	if c.awaitsTakers(in, bindings) {
		return lookForTakers, nil
	}
	var errs []error
	for _, b := range bindings {
		errs = append(errs, c.takeAway(ctx, in.policy, b))
	}
	var after soonest
	d := done{policyVersion: in.policy.ResourceVersion, binding: merge(bindings), err: errors.Join(errs...)}
	err := ignoreNotFound(c.writeStatus(ctx, in, d, statusOf(in, d), &after))
	// Their end is an event; looking again now and then heals a lost one.
	after.at(30 * time.Second)
	return after.duration(), errors.Join(d.err, err)
}

// takeAway deletes a Binding of a policy that is being deleted.
func (c *Controller) takeAway(ctx context.Context, policy *controlv1alpha1.BindingPolicy, b *controlv1alpha1.Binding) error {
	target := write.Target{Resource: controlv1alpha1.Bindings, Name: b.Name}
	if annotations, changed := corebinding.Annotate(b.Annotations, policy.Annotations); changed {
		// How it leaves may be said while it does.
		annotated := b.DeepCopy()
		annotated.TypeMeta, annotated.Annotations = bindingType, annotations
		meta, err := c.config.Writer.Update(ctx, target, annotated, reasonAnnotations)
		if ignoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			c.writes.wrote(bindingWrite(b.Name), meta.ResourceVersion)
		}
	}
	return c.deleteBinding(ctx, target, b, reasonDeleted)
}

func (c *Controller) wasDeleted(b *controlv1alpha1.Binding) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deleted[b.Name] == b.UID
}

func (c *Controller) noteDeleted(b *controlv1alpha1.Binding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deleted[b.Name] = b.UID
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
			"problems":           want.Problems,
			"rollup":             want.Rollup,
		},
	})
	if err != nil {
		return err
	}
	target := write.Target{Resource: controlv1alpha1.BindingPolicies, Name: in.policy.Name, Subresource: "status"}
	meta, err := c.config.Writer.Patch(ctx, target, types.MergePatchType, patch, reasonStatus)
	if err == nil {
		c.writes.wrote(policyWrite(in.policy.Name), meta.ResourceVersion)
		c.tellEvents(in.policy, want.Conditions)
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

// bindingsOf returns all Bindings of a policy.
func (c *Controller) bindingsOf(policy *controlv1alpha1.BindingPolicy) []*controlv1alpha1.Binding {
	in := input{policy: policy, binding: c.binding(policy.Name), overflow: c.overflow(policy)}
	return in.bindings()
}

// overflow returns the Bindings of the policy but for that of its name, in the order in which they were made.
func (c *Controller) overflow(policy *controlv1alpha1.BindingPolicy) []*controlv1alpha1.Binding {
	var overflow []*controlv1alpha1.Binding
	items, _ := c.config.Bindings.GetIndexer().ByIndex(byOwner, string(policy.UID)) // its error is that of an unknown index
	for _, item := range items {
		if b, ok := item.(*controlv1alpha1.Binding); ok && b.Name != policy.Name {
			overflow = append(overflow, b)
		}
	}
	slices.SortFunc(overflow, func(a, b *controlv1alpha1.Binding) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return overflow
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
