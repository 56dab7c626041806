package delivery

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// store holds the works, by Binding and mailbox, and the destinations of an ITS, as its Plugin
// reported them. It is safe for concurrent use.
type store struct {
	synced atomic.Bool

	mu           sync.RWMutex
	works        nested.Map[types.UID, string, mailbox] // of this WDS
	at           nested.Map[string, types.UID, bool]    // the Bindings that have works in a mailbox
	foreign      foreign
	destinations map[string]plugin.Destination
}

// mailbox is the works of one Binding in one mailbox, by name.
type mailbox map[string]*plan.Work

func newStore() *store {
	return &store{foreign: foreign{}, destinations: map[string]plugin.Destination{}}
}

// setWork replaces before by after. A work that was edited to belong to another Binding, or WDS,
// moves.
func (s *store) setWork(before, after *plan.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case before == nil:
	case before.Foreign != plan.WDS{}:
		s.foreign.remove(before)
	default:
		works := s.works[before.BindingUID][before.Mailbox]
		delete(works, before.Name)
		if len(works) == 0 {
			s.works.Delete(before.BindingUID, before.Mailbox)
			s.at.Delete(before.Mailbox, before.BindingUID)
		}
	}
	switch {
	case after == nil:
	case after.Foreign != plan.WDS{}:
		s.foreign.add(after)
	default:
		works := s.works[after.BindingUID][after.Mailbox]
		if works == nil {
			works = mailbox{}
			s.works.Set(after.BindingUID, after.Mailbox, works)
			s.at.Set(after.Mailbox, after.BindingUID, true)
		}
		works[after.Name] = after
	}
}

// bindingsAt returns the UIDs of the Bindings that have works in a mailbox, in no order.
func (s *store) bindingsAt(mailbox string) []types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.at[mailbox]))
}

// othersAt returns the works in a mailbox of all Bindings but one, of all WDSes, that are not being
// deleted. It is for what is rare: it reads all of them.
func (s *store) othersAt(mailbox string, binding types.UID) []*plan.Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := map[*plan.Work]bool{}
	for uid := range s.at[mailbox] {
		for _, work := range s.works[uid][mailbox] {
			found[work] = uid != binding
		}
	}
	for _, works := range s.foreign[mailbox] {
		for _, work := range works {
			found[work] = work.BindingUID != binding
		}
	}
	maps.DeleteFunc(found, func(work *plan.Work, other bool) bool { return !other || work.Deleting })
	return slices.Collect(maps.Keys(found))
}

// namesAt returns the names of the Bindings that have works in a mailbox, in no order.
func (s *store) namesAt(mailbox string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.at[mailbox]))
	for uid := range s.at[mailbox] {
		for _, work := range s.works[uid][mailbox] {
			names = append(names, work.Binding)
			break // all have the same one
		}
	}
	return names
}

// setDestination records a destination; nil removes it. It returns the destination before, nil if
// it was not known.
func (s *store) setDestination(name string, d *plugin.Destination) (before *plugin.Destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.destinations[name]; ok {
		before = &known
	}
	if d == nil {
		delete(s.destinations, name)
	} else {
		s.destinations[name] = *d
	}
	return before
}

func (s *store) destination(name string) (plugin.Destination, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	d, ok := s.destinations[name]
	return d, ok
}

// of returns the works of a Binding in one mailbox, in no order, without those that were restored
// from a backup: what the cluster has of them is not known.
func (s *store) of(binding types.UID, name string) []*plan.Work {
	return slices.DeleteFunc(s.all(binding, name), isRestored)
}

// all returns all works of a Binding in one mailbox, in no order.
func (s *store) all(binding types.UID, name string) []*plan.Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.works[binding][name]))
}

func isLive(work *plan.Work) bool { return work.Restored == "" }

func isRestored(work *plan.Work) bool { return work.Restored != "" }

// mailboxes returns the names of the mailboxes that hold works of a Binding, in no order.
func (s *store) mailboxes(binding types.UID) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.works[binding]))
}

// has reports whether the mailbox holds works of the Binding.
func (s *store) has(binding types.UID, name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.works[binding][name]) > 0
}

// bindings returns the UIDs of all Bindings of this WDS that have works, in no order.
func (s *store) bindings() []types.UID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.works))
}

// example returns one of the works of a Binding, nil if it has none.
func (s *store) example(binding types.UID) *plan.Work {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, works := range s.works[binding] {
		for _, work := range works {
			return work
		}
	}
	return nil
}

// addForeign adds the owners of other WDSes of objects in a mailbox that the Binding wants or its
// works have.
func (s *store) addForeign(owners plan.Owners, p *placement.Placement, mailbox string, works []*plan.Work) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.foreign.addTo(owners, p, mailbox, works)
}
