package transport

import (
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// others are the works of other WDSes in one mailbox.
type others struct {
	works map[string]*plan.Work // by name
	refs  map[objref.Ref][]*plan.Work
}

// setForeign replaces the work of that name, which another WDS has in that mailbox; nil removes it. The lock is held.
func (s *store) setForeign(mailbox, name string, work *plan.Work) {
	o := s.foreign[mailbox]
	if o == nil {
		o = &others{works: map[string]*plan.Work{}, refs: map[objref.Ref][]*plan.Work{}}
		s.foreign[mailbox] = o
	}
	if before := o.works[name]; before != nil {
		for i := range before.Items {
			ref := before.Items[i].Ref
			o.refs[ref] = slices.DeleteFunc(o.refs[ref], func(w *plan.Work) bool { return w == before })
			if len(o.refs[ref]) == 0 {
				delete(o.refs, ref)
			}
		}
		delete(o.works, name)
	}
	if work != nil {
		o.works[name] = work
		for i := range work.Items {
			if ref := work.Items[i].Ref; !slices.Contains(o.refs[ref], work) {
				o.refs[ref] = append(o.refs[ref], work)
			}
		}
	}
	if len(o.works) == 0 {
		delete(s.foreign, mailbox)
	}
}

// contested returns the works of other WDSes in a mailbox that hold objects which the Binding lists or its works hold. Most
// often there are none.
//
// A work that bears the Binding's UID was ours until somebody changed its label. It is not ours to write any more, but it is no
// other WDS's either. Its name is taken, and whoever wants the name is told why.
func (s *store) contested(p *placement, mailbox string, works []*plan.Work) map[objref.Ref][]*plan.Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o := s.foreign[mailbox]
	if o == nil {
		return nil
	}
	found := map[objref.Ref][]*plan.Work{}
	look := func(ref objref.Ref) {
		for _, work := range o.refs[ref] {
			if work.BindingUID != p.uid && !slices.Contains(found[ref], work) {
				found[ref] = append(found[ref], work)
			}
		}
	}
	for ref := range p.objects {
		look(ref)
	}
	for _, work := range works {
		for i := range work.Items {
			look(work.Items[i].Ref)
		}
	}
	return found
}

// site returns what a Binding is planned on at one destination.
//
// Stakes are those of other WDSes and of rivals; where there are some, those of others of our own source count with ours.
//
// A cluster that is not let in reports nothing, so nothing can be handed over there, and nothing is delivered: no stake counts.
func (s *space) site(p *placement, mailbox string, works []*plan.Work) *plan.Site {
	site := &plan.Site{Mailbox: mailbox, Prefix: string(p.uid), Works: works, Hold: p.hold}
	if d, _ := s.store.destination(mailbox); !d.Accepted {
		return site
	}
	site.Awaited, site.Copies = s.handOver(p, mailbox, works)
	site.Stakes = s.rivals(p, mailbox, works)
	for ref, foreign := range s.store.contested(p, mailbox, works) {
		if stakes := stakesIn(ref, foreign); len(stakes) > 0 {
			if site.Stakes == nil {
				site.Stakes = map[objref.Ref][]plan.Stake{}
			}
			site.Stakes[ref] = append(site.Stakes[ref], stakes...)
		}
	}
	for ref := range site.Stakes {
		for _, name := range s.listing(ref) {
			if other := s.placementOf(name); other != nil && name != p.name && other.source == p.source {
				site.Stakes[ref] = append(site.Stakes[ref], stakesIn(ref, s.store.of(other.uid, mailbox))...)
			}
		}
	}
	return site
}

// share returns what is delivered at a site in which other WDSes deliver some of the same: of which generation that is, none of them
// says. All see the same, so all come to deliver the same bytes.
func share(desired *plan.Desired, site *plan.Site) *plan.Desired {
	shared := func(o *plan.Object) bool {
		return o.Known && o.Bare != transform.Hash{} && slices.ContainsFunc(site.Stakes[o.Ref], func(s plan.Stake) bool {
			return !s.Ours() && !s.Observe && s.Sourced && s.Hash == o.Bare
		})
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(site.Stakes)), func(ref objref.Ref) bool {
		return slices.ContainsFunc(site.Stakes[ref], func(s plan.Stake) bool { return !s.Ours() && s.Sourced })
	}) {
		return desired
	}
	return desired.With(func(o *plan.Object) {
		if !shared(o) {
			return
		}
		if object, err := o.Shared(); err == nil { // it was encoded by us
			o.Object = object
		}
	})
}

// stakesIn returns the stakes that works have in an object.
func stakesIn(ref objref.Ref, works []*plan.Work) []plan.Stake {
	var stakes []plan.Stake
	for _, work := range works {
		for i := range work.Items {
			if item := &work.Items[i]; item.Ref == ref && !work.Deleting && !item.Withdrawn {
				stakes = append(stakes, plan.StakeOf(work, item))
			}
		}
	}
	return stakes
}

// onForeign puts the Bindings that list an object in which another WDS changed its stake into the queue: no others.
func (s *space) onForeign(before, after *plan.Work) {
	type stake struct {
		hash    transform.Hash
		observe bool
	}
	changed := map[objref.Ref]stake{}
	var mailbox string
	for _, work := range []*plan.Work{before, after} {
		if work == nil {
			continue
		}
		mailbox = work.Mailbox
		if work.Foreign == (plan.WDS{}) || work.Deleting {
			continue
		}
		for i := range work.Items {
			item := &work.Items[i]
			now := stake{item.Hash, item.Observe}
			if was, ok := changed[item.Ref]; ok && work == after && was == now {
				delete(changed, item.Ref)
				continue
			}
			changed[item.Ref] = now
		}
	}
	for ref := range changed {
		for _, name := range s.listing(ref) {
			s.queue.Add(Key{Binding: name, Mailbox: mailbox})
		}
	}
}
