package transport

import (
	"context"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// handOver looks at the objects that leave the works of a Binding: an object that passes from one policy to another, say. Awaited are
// those that another Binding of ours is about to deliver there, with its name; one that cannot deliver it, or has, is not waited for.
// Copies are those that another one holds.
func (s *space) handOver(p *placement, mailbox string, works []*plan.Work) (awaited map[objref.Ref]string, copies map[objref.Ref]plan.Copy) {
	_, listed := p.destinations[mailbox]
	var leaving []objref.Ref
	for _, work := range works {
		for i := range work.Items {
			ref := work.Items[i].Ref
			if _, wanted := p.objects[ref]; !wanted || !listed || p.deleting {
				leaving = append(leaving, ref)
			}
		}
	}
	if len(leaving) == 0 {
		return nil, nil
	}
	if owner, _ := s.owner(mailbox); owner != s {
		return nil, nil // the others deliver elsewhere
	}
	awaited, copies = s.coming(p.name, leaving, mailbox), map[objref.Ref]plan.Copy{}
	s.mu.Lock()
	defer s.mu.Unlock()
	others := map[string]map[objref.Ref]carried{}
	for _, ref := range leaving {
		for name := range s.listed[ref] {
			if name == p.name {
				continue
			}
			held, looked := others[name]
			if !looked {
				held = s.held(name, mailbox)
				others[name] = held
			}
			h, holds := held[ref]
			if holds {
				copies[ref] = plan.Copy{Work: h.work, Hash: h.item.Hash}
			}
			came := holds && h.item.State != plan.Pending
			if s.sourceNamed(name) != p.source {
				came = s.stands(name, ref, mailbox) // with a stake, it is handed over to
			}
			if first, ok := awaited[ref]; (!ok || name < first) && !came && s.isToDeliver(name, ref, mailbox) {
				awaited[ref] = name
			}
		}
	}
	return awaited, copies
}

// stands tells whether a Binding has a stake in an object: a delivery, or a claim. It is called with the lock held.
func (s *space) stands(name string, ref objref.Ref, mailbox string) bool {
	p := s.placements[name]
	return p != nil && len(stakesIn(ref, s.store.of(p.uid, mailbox))) > 0
}

// carried is an object in a work.
type carried struct {
	work *plan.Work
	item *plan.Item
}

// held returns what the works of a Binding deliver to a mailbox: of an object that is in two, what was reported. It is called with the
// lock held.
func (s *space) held(name, mailbox string) map[objref.Ref]carried {
	p := s.placements[name]
	if p == nil {
		return nil
	}
	held := map[objref.Ref]carried{}
	for _, work := range s.store.of(p.uid, mailbox) {
		for i := range work.Items {
			item := &work.Items[i]
			if work.Deleting || item.Observe {
				continue
			}
			if before, twice := held[item.Ref]; !twice || before.item.State == plan.Pending {
				held[item.Ref] = carried{work, item}
			}
		}
	}
	return held
}

// coming returns those of the objects that a Binding lists which changed and is not gathered yet, with its name. It was written before the
// one that lets them go, but may be gathered after that.
func (c *Controller) coming(except string, leaving []objref.Ref, mailbox string) map[objref.Ref]string {
	found := map[objref.Ref]string{}
	for _, obj := range c.config.Bindings.GetStore().List() {
		binding, ok := obj.(*controlv1alpha1.Binding)
		if !ok || binding.Name == except || binding.DeletionTimestamp != nil {
			continue
		}
		if p := c.placementOf(binding.Name); p != nil && p.uid == binding.UID && p.generation == binding.Generation {
			continue
		}
		if !slices.ContainsFunc(binding.Spec.Destinations, func(d controlv1alpha1.Destination) bool { return d.ClusterID == mailbox }) {
			continue
		}
		refs := corebinding.Refs(&binding.Spec)
		packages := len(binding.Spec.Workload.Packages) > 0 // of which nobody knows what they hold before they are gathered
		for _, ref := range leaving {
			if _, lists := refs[ref]; lists || packages {
				found[ref] = binding.Name
			}
		}
	}
	return found
}

// isToDeliver tells whether a Binding is to deliver an object. It is called with the lock held.
func (s *space) isToDeliver(name string, ref objref.Ref, mailbox string) bool {
	p := s.placements[name]
	switch {
	case p == nil:
		return true // it is being gathered
	case p.deleting || p.hold.Holds(ref):
		return false
	}
	object, ok := p.objects[ref]
	_, listed := p.destinations[mailbox]
	return ok && listed && object.Known && object.Size() <= s.config.Limits.Bytes
}

// nudgeOthers makes the cluster look again at works of other Bindings whose content it may have overwritten with older one that left a
// work of ours. If it is lost, the cluster's own look heals it some minutes later.
func (s *space) nudgeOthers(ctx context.Context, works []*plan.Work) error {
	for _, work := range works {
		action := plan.NudgeOf(work, plan.ReasonMove)
		p := s.placementOf(work.Binding)
		if p == nil || p.uid != work.BindingUID {
			continue
		}
		if _, _, err := s.do(ctx, Key{Binding: p.name, Mailbox: work.Mailbox}, p, []plan.Action{action}); err != nil {
			return err
		}
	}
	return nil
}
