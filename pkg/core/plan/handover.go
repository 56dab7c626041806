package plan

import (
	"slices"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// What follows from the owners of an object: who delivers it (contest), and what becomes of an item
// that is to leave a work (leaving). docs/design/0019-hand-over.md has the state table.

// MayRelease reports whether an owner may release an object: each successor that is able to deliver
// it holds it. It is the one rule of hand-over, for Bindings in a mailbox and for policies whose
// Bindings list an object. A successor is a Binding, or a policy, that is to have the object: it is
// able if nothing but time keeps it from that.
func MayRelease[S any](successors []S, able, holds func(*S) bool) bool {
	for i := range successors {
		if s := &successors[i]; able(s) && !holds(s) {
			return false
		}
	}
	return true
}

// Conflict says that another owner wants the object at a destination with other content.
type Conflict struct {
	Ref objref.Ref
	// With is the earliest of the others.
	With Owner
	// Ours: we deliver the object; otherwise we only claim it.
	Ours bool
}

// HandOver says that an object is not wanted any more and stays until another owner has it.
type HandOver struct {
	Ref objref.Ref
	// To is the owner; the zero Owner if the object is to stay in the cluster as nobody's: then it
	// stays in its work until the cluster has reported that it is the work's no more.
	To Owner
	// Waits: the object stays as it is until the owner has it; otherwise it is being released to
	// the owner.
	Waits bool
	// Behind is an object of the work without which the destination deletes nothing for the work;
	// nil if it is about something else.
	Behind *Item
	// Failed is what the destination reported of the object if it could not release it.
	Failed *Item
	// Former: the object is wanted, but as another one, and the former one has to go first.
	Former bool
	// Kept: nobody deletes the former one, which the cluster has. That is left to users.
	Kept bool
}

// contest decides whether we deliver an object of this content, or only claim it. Ours are the
// owners of our source, ourselves included; others are all other ones. It returns the earliest of
// those with other content, nil if there is none.
//
// The rule needs only what all sides see, and what each wants itself: a delivery is earlier than a
// claim, and of two of a kind that in the older work. The others claim, so once each side was
// planned, one delivers. The claims stay, and when the delivery leaves, the earliest of them
// follows. A side that has nothing yet waits behind all claims, but joins a delivery of the same
// bytes at once.
func contest(wanted transform.Hash, ours, others []Owner) (deliver bool, against *Owner) {
	mine := first(ours, func(*Owner) bool { return true })
	rival := first(others, func(o *Owner) bool { return o.Content() != wanted })
	switch {
	case rival == nil:
		return true, nil
	case mine != nil && earlier(mine, rival) < 0:
		return true, rival
	case !rival.Delivers() && slices.ContainsFunc(others, func(o Owner) bool { return o.Delivers() && o.Content() == wanted }):
		return true, rival
	}
	return false, rival
}

// releasing are the options of an object that leaves without being deleted. The cluster drops the
// work's ownership, and writes no content any more: the next owner may have written already.
func releasing() Options { return Options{CreateOnly: true, Orphan: true} }

// released reports whether the cluster has reported that the object is not the work's any more: it
// may leave, and stays in the cluster. So is one that never was the work's.
func released(item *Item) bool { return item.Observe || item.Orphan && item.State == Applied }

// contested reports whether an object is in a work of another source or WDS.
func contested(owners []Owner) bool {
	return slices.ContainsFunc(owners, func(o Owner) bool { return o.Work != nil && !o.SameSource() })
}

// departure is what becomes of an item that is to leave its work.
type departure int

const (
	// removal: the item goes. If nothing else owns the object, the cluster deletes it.
	removal departure = iota
	// wait: the item stays as it is.
	wait
	// release: the cluster is to drop the work's ownership. Then the item goes, and the object
	// stays.
	release
	// orphaning: as release, but because its user wants the object to stay.
	orphaning
)

// departing decides what becomes of an item that the Binding does not want any more, and names the
// owner it is about.
//
// It stays until each owner of our WDS that lists the object has it: one of our source must keep it
// in the cluster, unless another source or WDS keeps that one at a claim; one of another source
// needs at least its claim. A claim, and what was released to another WDS, stays until they have
// one, too: without it, what the other WDS delivers would be deleted when that leaves. If an owner
// then has the object that may not keep it in the cluster, it is released: another WDS that
// delivers it may be about to release it, too. An object that no other owner is to have is removed,
// or stays if its user wants that (orphaned).
func departing(item *Item, owners []Owner) (departure, *Owner) {
	disputed := slices.ContainsFunc(owners, func(o Owner) bool { return o.Work != nil && !o.SameSource() && !o.Leaving })
	if len(owners) == 0 || item.Withdrawn || released(item) && !item.Observe && !disputed {
		return removal, nil
	}
	able := func(o *Owner) bool { return !o.Leaving && !o.Awaits }
	holds := func(o *Owner) bool {
		if released(item) || !o.SameSource() || o.State == OwnerClaimed && disputed {
			return o.State > OwnerListed
		}
		return o.State == OwnerApplied
	}
	if !MayRelease(owners, able, holds) {
		i := slices.IndexFunc(owners, func(o Owner) bool { return able(&o) && !holds(&o) })
		return wait, &owners[i]
	}
	if released(item) {
		return removal, nil
	}
	heir := first(owners, func(o *Owner) bool {
		return able(o) && (!o.SameSource() || o.State == OwnerApplied && o.Item.Orphan)
	})
	if heir == nil {
		return removal, nil
	}
	if i := slices.IndexFunc(owners, func(o Owner) bool { return o.SameSource() && o.Delivers() && o.Writing }); i >= 0 {
		return wait, &owners[i] // it may be leaving because we have the object
	}
	return release, heir
}

// relied reports whether an owner of our source leaves an object, or may be about to, because we
// own it; or whether a cluster has yet to do with what left a work. It deletes the object if
// nothing else owns it then. Of the works of others nobody notifies this Binding.
//
// An owner that leaves the object in the cluster relies on nobody who leaves, too (keepsItThere):
// the two would wait for each other.
func (b *builder) relied(ref objref.Ref) (relied, byOthers bool) {
	leave := !b.desired.Wants(ref)
	relies := func(o Owner) bool {
		return o.SameSource() && o.Delivers() && (o.Writing || o.Leaving && !(leave && o.Orphans))
	}
	lost := func(w *Work) bool {
		if item := w.item(ref); item != nil {
			return !item.Awaited() && (item.Withdrawn || w.Deleting)
		}
		_, may := w.Lost(ref)
		return may
	}
	byOthers = slices.ContainsFunc(b.now.Owners[ref], relies) ||
		slices.ContainsFunc(b.now.Siblings, lost)
	return byOthers || slices.ContainsFunc(b.all, lost), byOthers
}

// owning returns the options that an item gets instead of others, as long as the work must go on to
// own the object.
func (b *builder) owning(item *Item, options Options) Options {
	if !options.Orphan || item.Orphan || item.Observe {
		return options
	}
	relied, byOthers := b.relied(item.Ref)
	b.plan.Postponed = b.plan.Postponed || byOthers
	options.Orphan = !relied
	return options
}

// keeping returns the options that an item gets instead of others, such that those of an item on
// which nothing was reported are those that it came with, as far as its object is orphaned: the
// cluster may have the object with any options since. Nor is such an item released.
func (b *builder) keeping(item *Item, options Options) Options {
	if options.Orphan && !item.Orphan && !item.Seen && item.State != Silent {
		options.Orphan = false
	}
	return b.owning(item, options)
}

// disputes finds out which objects are contested, and what becomes of them.
func (b *builder) disputes() {
	if len(b.now.Owners) == 0 {
		return
	}
	own := map[objref.Ref][]Owner{}
	for work, item := range Items(b.works) {
		if contested(b.now.Owners[item.Ref]) && !item.Awaited() {
			owner := OwnerOf(work, item)
			if item.Withdrawn {
				owner.State = OwnerPending // it is wanted again, and the cluster may have it as the work's: as a claim it would be deleted
			}
			own[item.Ref] = append(own[item.Ref], owner)
		}
	}
	for i := range b.desired.objects {
		ref := b.desired.objects[i].Ref
		owners := b.now.Owners[ref]
		if !contested(owners) || b.now.Hold.Holds(ref) || b.hold(i) && b.held[i] == nowhere {
			continue
		}
		hash := b.desired.objects[i].Content()
		if b.hold(i) {
			hash = b.item(b.held[i]).Content() // what cannot be read now is wanted as it is
		}
		ours, others := own[ref], []Owner(nil)
		for _, o := range owners {
			if o.SameSource() {
				ours = append(ours, o)
			} else if o.Work != nil {
				others = append(others, o)
			}
		}
		deliver, against := contest(hash, ours, others)
		if against != nil {
			b.plan.Conflicts = append(b.plan.Conflicts, Conflict{Ref: ref, With: *against, Ours: deliver})
		}
		if !deliver {
			if b.claims == nil {
				b.claims = map[int]bool{}
			}
			b.claims[i] = true
		}
	}
	slices.SortFunc(b.plan.Conflicts, func(x, y Conflict) int { return objref.Compare(x.Ref, y.Ref) })
}

// departures decides what becomes of the items that the Binding does not want any more. What those
// that stay for another owner need stays, too: the cluster would delete the object with its
// Namespace, or its kind.
func (b *builder) departures() {
	if !b.leavers {
		return
	}
	for work, item := range Items(b.works) {
		if b.desired.Wants(item.Ref) || b.isHeld(work, item) {
			continue
		}
		how, to := departing(item, b.now.Owners[item.Ref])
		if how == release && b.now.Passed && b.now.Unattended {
			how = removal // nobody would report that it is released
		}
		if how == removal && (work.Begun || item.Seen) && b.orphaned(item) {
			how = orphaning
		}
		if how == removal {
			continue
		}
		if b.leaving == nil {
			b.leaving, b.under = map[*Item]leaving{}, map[objref.Ref]bool{}
		}
		b.leaving[item] = leaving{how, to}
		for _, need := range Prerequisites(item.Ref) {
			b.under[need] = true
		}
	}
}

// orphaned reports whether an item that is to be removed stays first, until the cluster has
// reported that it keeps the object. Only an attended cluster will report that.
func (b *builder) orphaned(item *Item) bool {
	return !b.now.Unattended && item.deletable() && b.orphans(item) && !slices.ContainsFunc(b.now.Owners[item.Ref], keepsItThere)
}

// orphans reports whether the object of an item that is not wanted any more is to stay in the
// cluster.
func (b *builder) orphans(item *Item) bool {
	if b.now.Orphans != nil {
		if orphan, known := b.now.Orphans(item.Ref); known {
			return orphan
		}
	}
	return item.Orphan
}

// leaving is how an item leaves that does not go at once, and for whom.
type leaving struct {
	how departure
	to  *Owner
}

// stays reports whether an item that the Binding does not want stays as it is, or is being
// released.
func (b *builder) stays(item *Item) bool {
	return b.requires(item) || !item.Withdrawn && (b.leaving[item].how != removal || b.under[item.Ref])
}
