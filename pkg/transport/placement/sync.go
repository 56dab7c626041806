package placement

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/writer"
)

// Sync brings the Placement of one Binding up to date and notifies the Consumer. It must not be
// called twice at the same time for one Binding.
//
// While another process leads, it writes nothing, so that the Placement is known, with its content,
// when this process becomes the leader: all are gathered again then.
func (g *Gatherer) Sync(ctx context.Context, name string) (worker.Result, error) {
	leads := g.mayWrite()
	changed, before := g.dequeue(name), g.index.Get(name)
	binding, err := g.index.Binding(name)
	if err != nil {
		return worker.Result{}, err
	}
	if name == pkgv1.HoldsBinding {
		g.syncHeld()
	}
	switch {
	case binding == nil || binding.DeletionTimestamp != nil && !hasFinalizer(binding):
		// The Binding is gone, or is deleted without us. Works that are left are orphaned: nobody
		// asked for their deletion.
		return worker.Result{}, g.publish(name, leads, before, nil)
	case binding.DeletionTimestamp != nil:
		p, late := g.deleting(ctx, before, binding, changed.held)
		if late {
			return worker.Result{After: lateAgain}, nil
		}
		return worker.Result{}, g.publish(name, leads, before, p)
	case leads && !hasFinalizer(binding):
		// Before anything is delivered, or the Binding could be deleted and leave works behind.
		if err := SetFinalizer(ctx, g.config.Writer, binding, true); err != nil {
			return worker.Result{}, err
		}
	}

	if !changed.whole && len(changed.objects) > 0 && before.isOf(binding) {
		next, ok := g.revise(ctx, before, changed.objects)
		switch {
		case ok && next == before:
			return worker.Result{}, nil
		case ok:
			packagingSeconds.Observe(next.Decided.Sub(changed.since).Seconds())
			return worker.Result{}, g.publish(name, leads, before, next)
		}
	}
	next, again := g.gatherConfirmed(ctx, binding, before)
	if again.late {
		return worker.Result{After: lateAgain}, nil
	}
	if !changed.held && before.sameContent(next) {
		// Only versions changed, or what is wrong with objects: the mailboxes should hold the same.
		next.Desired, next.Objects, next.Decided = before.Desired, before.Objects, before.Decided
	} else if !changed.since.IsZero() {
		packagingSeconds.Observe(next.Decided.Sub(changed.since).Seconds())
	}
	if err := g.publish(name, leads, before, next); err != nil {
		return worker.Result{}, err
	}
	switch {
	case again.retry:
		return worker.Result{}, errors.New("some objects cannot be read")
	case again.recheck:
		return worker.Result{After: grace}, nil
	case again.guessed:
		return worker.Result{After: guessedFor}, nil
	}
	return worker.Result{}, nil
}

// deleting returns the Placement of a Binding that is being deleted: before, if that is it already,
// and what Transactions hold has not changed. It reports whether a watch is late (leavingFrom).
func (g *Gatherer) deleting(ctx context.Context, before *Placement, binding *controlv1alpha1.Binding, held bool) (p *Placement, late bool) {
	known := before != nil && before.Deleting && before.UID == binding.UID
	if known && !held && before.Generation == binding.Generation && before.Annotations.AreOf(binding) {
		return before, false
	}
	p = &Placement{
		Name: binding.Name, UID: binding.UID, Generation: binding.Generation, Deleting: true, Source: SourceOf(binding),
		Annotations: AnnotationsOf(binding), Held: g.heldOf(binding), Decided: g.config.Clock.Now(), policy: policyOf(binding),
	}
	defer g.keep(p)
	if known {
		p.leaving = before.leaving
		return p, false
	}
	// How the objects leave follows from their annotations as they are now, which may have changed
	// since they were read, or while no transport was running.
	last, more := g.gather(ctx, binding, before)
	p.leaving, late = g.leavingFrom(ctx, p, last)
	return p, late || more.late
}

// publish makes p, which may be nil, the Placement of a Binding, if it is not so already, and
// notifies the Consumer. What was gathered before this process became the leader is dropped.
func (g *Gatherer) publish(name string, leads bool, before, p *Placement) error {
	g.leading.RLock()
	defer g.leading.RUnlock()
	if g.leads != leads {
		return worker.ErrStale
	}
	if p == nil || p != before {
		g.place(name, p)
	}
	g.config.Consumer.OnPlacement(name, before, p)
	return nil
}

// place makes p, which may be nil, the Placement of a Binding, and forgets what only its
// predecessor needed.
func (g *Gatherer) place(name string, p *Placement) {
	done := g.index.Publish(name, p)
	bindingsCount.Add(Step(done.Before != nil, p != nil))
	g.watches.drop(name, p)
	g.objects.forget(done.Unlisted)
	before, after := cmp.Or(done.Before, &Placement{}), cmp.Or(p, &Placement{})
	if !before.scales().Equal(after.scales()) || !maps.Equal(before.keeps, after.keeps) {
		for _, other := range g.index.Beside(cmp.Or(after.policy, before.policy), name) {
			g.enqueue(other.Name, "")
		}
	}
	if after.Source == "" {
		g.packages.use(name, nil)
	}
	g.transforms.collection.SetBindingGroupResources(name, slices.Collect(maps.Keys(after.resources)))
	whats, wheres := len(after.Objects), len(after.Destinations)
	if whats != len(before.Objects) || wheres != len(before.Destinations) {
		bindingWhats.Observe(float64(whats))
		bindingWheres.Observe(float64(wheres))
		bindingAreas.Observe(float64(whats * wheres))
	}
}

func hasFinalizer(binding *controlv1alpha1.Binding) bool {
	return slices.Contains(binding.Finalizers, controlv1alpha1.BindingFinalizer)
}

// SetFinalizer adds or removes the finalizer of the transport. The patch has the resourceVersion of
// the Binding, because it replaces the whole list.
func SetFinalizer(ctx context.Context, wds *writer.Writer, binding *controlv1alpha1.Binding, present bool) error {
	finalizers := slices.DeleteFunc(slices.Clone(binding.Finalizers), func(f string) bool { return f == controlv1alpha1.BindingFinalizer })
	reason := "finalized"
	if present {
		finalizers = append(finalizers, controlv1alpha1.BindingFinalizer)
		reason = "finalizer"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": binding.UID, "resourceVersion": binding.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: controlv1alpha1.Bindings, Name: binding.Name}
	if _, err = wds.Patch(ctx, target, types.MergePatchType, patch, reason); err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Set the finalizer", logging.Binding, binding.Name, "present", present)
	return nil
}
