package transport

import (
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Rivals are Bindings of this WDS that deliver an object from different sources: a package and an object of the WDS, or two packages.
// What their works hold are stakes, as with those of another WDS.

// sources tell where the content of Bindings comes from; see sourceOf.
type sources struct {
	// by is by UID, of all Bindings that are there.
	by map[types.UID]string
	// packages counts those with packages: mostly, where nobody uses them, nobody has rivals.
	packages int
}

// noteSource notes that a Binding came, changed or went.
func (c *Controller) noteSource(before, after *controlv1alpha1.Binding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != nil && (after == nil || before.UID != after.UID) {
		c.sources.set(before.UID, "")
		delete(c.sources.by, before.UID)
	}
	if after != nil {
		c.sources.set(after.UID, sourceOf(after))
	}
}

func (s *sources) set(uid types.UID, source string) {
	s.packages += int(step(s.by[uid] != "", source != ""))
	s.by[uid] = source
}

// sourceNamed returns the source of a Binding by its name. The lock is held.
func (c *Controller) sourceNamed(name string) string {
	if p := c.placements[name]; p != nil {
		return p.source
	}
	if binding, err := c.binding(name); err == nil && binding != nil {
		return sourceOf(binding)
	}
	return ""
}

// rivals returns the stakes that Bindings of other sources have in objects that a Binding lists, or its works hold, at a mailbox. Works
// whose Binding is not there have none: nobody would let them go.
func (s *space) rivals(p *placement, mailbox string, works []*plan.Work) map[objref.Ref][]plan.Stake {
	s.mu.Lock()
	if s.sources.packages == 0 {
		s.mu.Unlock()
		return nil
	}
	others := map[types.UID]string{}
	for _, uid := range s.store.bindingsAt(mailbox) {
		if other, known := s.sources.by[uid]; known && uid != p.uid && other != p.source {
			others[uid] = other
		}
	}
	s.mu.Unlock()
	if len(others) == 0 {
		return nil
	}
	held := map[objref.Ref]bool{}
	for _, work := range works {
		for i := range work.Items {
			held[work.Items[i].Ref] = true
		}
	}
	found := map[objref.Ref][]plan.Stake{}
	for uid, other := range others {
		for _, work := range s.store.of(uid, mailbox) {
			if work.Deleting {
				continue
			}
			for i := range work.Items {
				item := &work.Items[i]
				if _, listed := p.objects[item.Ref]; item.Withdrawn || !listed && !held[item.Ref] {
					continue
				}
				stake := plan.StakeOf(work, item)
				if stake.Source = other; other == "" {
					stake.Source = policies
				}
				found[item.Ref] = append(found[item.Ref], stake)
			}
		}
	}
	return found
}

// policies is the source of what lies in the WDS, seen from packages.
const policies = "objects"

// concerned tells whether a Binding delivers to a mailbox, or has works there: most packages have the same objects for many clusters, each
// from a Binding of its own. One that is not gathered yet looks everywhere when it is. The lock is held.
func (s *space) concerned(name, mailbox string) bool {
	p := s.placements[name]
	if p == nil {
		return false
	}
	_, listed := p.destinations[mailbox]
	return listed || s.store.has(p.uid, mailbox)
}

// onRivals puts the Bindings of other sources that deliver an object to the same mailbox in which a Binding changed its stake into the queue.
func (s *space) onRivals(before, after *plan.Work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources.packages == 0 {
		return
	}
	work := before
	if after != nil {
		work = after
	}
	type stake struct {
		hash    transform.Hash
		observe bool
	}
	changed := map[objref.Ref]stake{}
	for _, work := range []*plan.Work{before, after} {
		if work == nil || work.Deleting {
			continue
		}
		for i := range work.Items {
			item := &work.Items[i]
			listed := s.listed[item.Ref]
			if _, ours := listed[work.Binding]; len(listed) == 0 || len(listed) == 1 && ours {
				continue
			}
			now := stake{item.Hash, item.Observe}
			if was, ok := changed[item.Ref]; ok && work == after && was == now {
				delete(changed, item.Ref)
				continue
			}
			changed[item.Ref] = now
		}
	}
	source := s.sources.by[work.BindingUID]
	for ref := range changed {
		for name := range s.listed[ref] {
			if name != work.Binding && s.concerned(name, work.Mailbox) && s.sourceNamed(name) != source {
				s.queue.Add(Key{Binding: name, Mailbox: work.Mailbox})
			}
		}
	}
}
