package transport

import (
	"bytes"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// settleOptions says how clusters deal with the objects of a Binding: what was wished for each, and what follows from others in
// the same Binding. Where that is not known, the content counts as not known either, so that both stay as they are.
func settleOptions(objects []plan.Object, entries []entry, findings []finding, o *orders) {
	explicit := make([]bool, len(objects))
	for i := range objects {
		object := &objects[i]
		rule := options.ForKind(object.Ref)
		rule.Orphan = neverDeleted(object.Ref)
		wish := findings[i].wish.Over(o.wish)
		explicit[i] = wish.SaysHow() || entries[i].createOnly
		object.Options = wish.Options(rule)
		if entries[i].createOnly {
			object.Options = options.Merge(object.Options, plan.Options{CreateOnly: true})
		}
		object.Known = object.Known && !o.wishInvalid
	}

	scaled := map[options.Target]bool{}
	unsure := map[string]bool{} // namespaces in which it is not known what is scaled
	for i := range objects {
		if !options.IsAutoscaler(objects[i].Ref) {
			continue
		}
		if !objects[i].Known {
			unsure[objects[i].Ref.Namespace] = true
		} else if target, ok := options.TargetOf(&objects[i].Object); ok {
			scaled[target] = true
		}
	}
	for i := range objects {
		object := &objects[i]
		if explicit[i] || !object.Known {
			continue
		}
		target := options.Target{Kind: object.Kind.GroupKind(), Namespace: object.Ref.Namespace, Name: object.Ref.Name}
		switch {
		case scaled[target]:
			object.Options = options.Scaled(object.Options)
		case unsure[object.Ref.Namespace] && bytes.Contains(object.JSON, []byte(`"replicas":`)):
			object.Known = false
		}
	}
}

// overlay merges into what a Binding asks of a destination the options that other Bindings of its source want for the same objects there.
func (s *space) overlay(desired *plan.Desired, p *placement, mailbox string) *plan.Desired {
	merged := map[objref.Ref]plan.Options{}
	merge := func(ref objref.Ref) {
		for name := range s.listed[ref] {
			if name != p.name && s.sourceNamed(name) == p.source {
				merged[ref] = options.Merge(merged[ref], s.wantedBy(name, ref, mailbox))
			}
		}
	}
	s.mu.Lock()
	if len(s.shared) < len(p.objects) { // mostly there are none
		for ref := range s.shared {
			if _, listed := p.objects[ref]; listed {
				merge(ref)
			}
		}
	} else {
		for ref := range p.objects {
			if _, shared := s.shared[ref]; shared {
				merge(ref)
			}
		}
	}
	s.mu.Unlock()
	maps.DeleteFunc(merged, func(_ objref.Ref, o plan.Options) bool { return o == (plan.Options{}) })
	if len(merged) == 0 {
		return desired
	}
	return desired.With(func(o *plan.Object) {
		if others, ok := merged[o.Ref]; ok {
			o.Options = options.Merge(o.Options, others)
		}
	})
}

// wantedBy returns the options that a Binding wants for an object at a destination. Where that is not known, since the Binding was
// not gathered yet or the object cannot be read, it is what its works there say. It is called with the lock held.
func (s *space) wantedBy(name string, ref objref.Ref, mailbox string) plan.Options {
	p := s.placements[name]
	var uid types.UID
	if p != nil {
		if _, there := p.destinations[mailbox]; !there || p.deleting {
			return plan.Options{}
		}
		if object, ok := p.objects[ref]; ok && object.Known {
			return object.Options
		}
		uid = p.uid
	} else if binding, err := s.binding(name); err == nil && binding != nil {
		uid = binding.UID
	}
	for _, work := range s.store.of(uid, mailbox) {
		for i := range work.Items {
			if item := &work.Items[i]; item.Ref == ref && !item.Observe {
				return item.Options
			}
		}
	}
	return plan.Options{}
}

// deliverNeighbours has other Bindings look again at the objects that they share with one that changed: at the destinations of
// both, where something changed that their options could follow from.
func (c *Controller) deliverNeighbours(before, after *placement) {
	if before == nil {
		before = &placement{}
	}
	moved := before.deleting != after.deleting || !maps.Equal(before.destinations, after.destinations)
	neighbours := map[*placement]bool{}
	c.mu.Lock()
	look := func(ref objref.Ref, changed bool) {
		if !changed {
			return
		}
		for name := range c.listed[ref] {
			if p := c.placements[name]; p != nil && name != before.name && name != after.name {
				neighbours[p] = true
			}
		}
	}
	for ref, is := range after.objects {
		was, listed := before.objects[ref]
		look(ref, moved || !listed || was.Options != is.Options || was.Known != is.Known)
	}
	for ref := range before.objects {
		_, listed := after.objects[ref]
		look(ref, !listed)
	}
	c.mu.Unlock()
	for p := range neighbours {
		for mailbox := range p.destinations {
			_, was := before.destinations[mailbox]
			if _, is := after.destinations[mailbox]; was || is {
				c.enqueueDelivery(p, mailbox)
			}
		}
	}
}
