package delivery

import (
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// its is the state of one ITS: what its Plugin reported, and what was written to it.
type its struct {
	name      string
	store     *store
	reports   reports
	creations creations
	expected  expectations
	retries   retries
	// queue is the delivery queue.
	queue *worker.Queue[Key]
	// orphaned are the UIDs of the orphaned Bindings that were logged.
	orphaned map[types.UID]bool
}

// concerns reports whether a Placement, nil if it is being gathered, has to do with a mailbox:
// whether it is listed, or holds works. Most packages have the same objects for many clusters, each
// from a Binding of its own. A Placement that is published later is delivered everywhere then.
func (i *its) concerns(p *placement.Placement, mailbox string) bool {
	return p != nil && (p.Lists(mailbox) || i.store.has(p.UID, mailbox))
}

// listing returns the Placements of the Bindings that list an object and have to do with the
// mailbox, in no order.
func (i *its) listing(view placement.View, ref objref.Ref, mailbox string) iter.Seq[*placement.Placement] {
	return func(yield func(*placement.Placement) bool) {
		for name := range view.At(mailbox).Listing(ref) {
			if p := view.Get(name); p != nil && p.Lists(mailbox) && !yield(p) {
				return
			}
		}
		// Those that are not to deliver there any more, and have works there.
		for _, name := range i.store.namesAt(mailbox) {
			p := view.Get(name)
			if p != nil && !p.Lists(mailbox) && i.store.has(p.UID, mailbox) && view.Lists(name, ref) && !yield(p) {
				return
			}
		}
	}
}

// fleet is all ITSes. It does not change.
type fleet []*its

// assigned returns the ITS that a cluster belongs to, nil if none accepts a cluster of that name.
// That is not sure while some ITS has not reported its clusters.
func (f fleet) assigned(cluster string) (to *its, sure bool) {
	all := true
	members := make(map[*its]inventory.Member, len(f))
	for _, i := range f {
		all = all && i.store.synced.Load()
		d, _ := i.store.destination(cluster)
		members[i] = inventory.Member{Candidate: d.Candidate, Accepted: d.Accepted}
	}
	to, state := inventory.Choose(members, all)
	return to, state != inventory.Unknown
}

// heir returns the ITS to which the name of a cluster has passed, if that is known: all ITSes have
// reported their clusters, and the name stands for one in another ITS than from. Otherwise it
// returns nil.
func (f fleet) heir(from *its, cluster string) *its {
	if len(f) == 1 || slices.ContainsFunc(f, func(i *its) bool { return !i.store.synced.Load() }) {
		return nil
	}
	if to, _ := f.assigned(cluster); to != from {
		return to
	}
	return nil
}

// enqueue enqueues one Binding at one destination in the ITSes that it concerns: those that know
// the cluster, and those that hold works for it.
func (f fleet) enqueue(p *placement.Placement, mailbox string) {
	for _, i := range f {
		if _, known := i.store.destination(mailbox); known || i.store.has(p.UID, mailbox) {
			i.queue.Add(Key{Binding: p.Name, Mailbox: mailbox})
		}
	}
}

// enqueueAll enqueues a Binding at all its destinations, and at all mailboxes with works of it.
func (f fleet) enqueueAll(p *placement.Placement) {
	mailboxes := make(map[string]struct{}, len(p.Destinations))
	maps.Copy(mailboxes, p.Destinations)
	for _, i := range f {
		for _, mailbox := range i.store.mailboxes(p.UID) {
			mailboxes[mailbox] = struct{}{}
		}
	}
	for _, mailbox := range slices.Sorted(maps.Keys(mailboxes)) {
		f.enqueue(p, mailbox)
	}
}

// lacking returns the objects of a Placement that some work of its Binding has with other content,
// or that none has. While some ITS has not reported its works, that is all of them.
func (f fleet) lacking(p *placement.Placement) map[objref.Ref]bool {
	lacking := make(map[objref.Ref]bool, len(p.Objects))
	for ref := range p.Objects {
		lacking[ref] = true
	}
	if slices.ContainsFunc(f, func(i *its) bool { return !i.store.synced.Load() }) {
		return lacking
	}
	differs := map[objref.Ref]bool{}
	for _, i := range f {
		for _, mailbox := range i.store.mailboxes(p.UID) {
			for _, item := range plan.Items(i.store.of(p.UID, mailbox)) {
				delete(lacking, item.Ref)
				if object, listed := p.Objects[item.Ref]; listed && (item.Withdrawn || item.Hash != object.Hash) {
					differs[item.Ref] = true
				}
			}
		}
	}
	maps.Copy(lacking, differs)
	return lacking
}

// delivered calls visit for each object in the works of a Binding. It returns false while some ITS
// has not reported its works.
func (f fleet) delivered(binding types.UID, visit func(ref objref.Ref, withdrawn bool)) (complete bool) {
	complete = true
	for _, i := range f {
		if !i.store.synced.Load() {
			complete = false
		}
		for _, mailbox := range i.store.mailboxes(binding) {
			for _, item := range plan.Items(i.store.of(binding, mailbox)) {
				visit(item.Ref, item.Withdrawn)
			}
		}
	}
	return complete
}
