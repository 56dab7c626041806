package plan

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// WDS identifies a workload definition space that is not ours. The zero WDS is ours.
type WDS struct {
	// UID is the identity of the space.
	UID types.UID
	// Name is the name that its transport-controller gives the space. It identifies nothing.
	Name string
}

// OwnerState says how far an owner is with an object in a mailbox.
type OwnerState int8

// OwnerStates, in their order.
const (
	// OwnerListed: the Binding lists the object and the destination, and can deliver it, but no
	// work of it has the object.
	OwnerListed OwnerState = iota
	// OwnerClaimed: a work has a claim to the object, which applies nothing.
	OwnerClaimed
	// OwnerPending: a work delivers the object. The cluster has not reported that the object is the
	// work's, or it is not known whether it has: so it is with the works of other WDSes.
	OwnerPending
	// OwnerApplied: a work delivers the object, and the cluster has reported that it is there. Of a
	// destination that reports nothing it is assumed.
	OwnerApplied
)

// Owner is a Binding, other than the one that is planned, that is to deliver an object to a
// mailbox, or that has it in a work. A Binding has one Owner for each of its works that has the
// object, and one without a work if none has.
//
// Bindings of one source in one WDS deliver the same bytes, so there is no conflict between them.
// Two sources of one WDS (a package, and the objects of the WDS) are to each other what two WDSes
// are.
type Owner struct {
	// WDS is the WDS of the Binding, zero if it is ours.
	WDS WDS
	// Source is where the content comes from, if that is another source of our WDS than that of the
	// Binding that is planned.
	Source string
	// Binding is the name of the Binding.
	Binding string
	State   OwnerState
	// Leaving: the Binding does not list the object at the destination any more. It is not known of
	// other WDSes.
	Leaving bool
	// Orphans: it is Leaving, and is not removed before the cluster has reported that it keeps the
	// object.
	Orphans bool
	// Writing: a write to the Binding's works is under way, or is not seen yet. What they show may
	// be over. It is not known of other WDSes.
	Writing bool
	// Awaits: the owner can deliver the object when the cluster has no former one any more. It is
	// not known of other WDSes.
	Awaits bool
	// Work is the work that has the object, and Item the object in it; both are nil if none has.
	Work *Work
	Item *Item
}

// OwnerOf returns what follows from a work that has an object.
func OwnerOf(work *Work, item *Item) Owner {
	o := Owner{WDS: work.Foreign, Binding: work.Binding, State: OwnerPending, Work: work, Item: item}
	switch {
	case item.Observe:
		o.State = OwnerClaimed
	case work.Foreign == WDS{} && (item.Reported || item.State == Applied || item.State == Silent):
		o.State = OwnerApplied
	}
	return o
}

// SameSource reports whether the owner delivers what the Binding that is planned delivers: it is of
// our WDS, and of the same source.
func (o *Owner) SameSource() bool { return o.WDS == WDS{} && o.Source == "" }

// Delivers reports whether a work of the owner delivers the object.
func (o *Owner) Delivers() bool { return o.State >= OwnerPending }

// earlier orders owners that have the object in a work: deliveries before claims, then by the age
// of their works. All see the same order.
func earlier(a, b *Owner) int {
	if a.Delivers() != b.Delivers() {
		if a.Delivers() {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Work.Created, b.Work.Created), strings.Compare(string(a.Work.UID), string(b.Work.UID)))
}

// first returns the earliest of those owners that have the object in a work and that count, nil if
// there is none.
func first(owners []Owner, counts func(*Owner) bool) *Owner {
	var found *Owner
	for i := range owners {
		if o := &owners[i]; o.Work != nil && counts(o) && (found == nil || earlier(o, found) < 0) {
			found = o
		}
	}
	return found
}

// Owners are the owners of objects in a mailbox, without the Binding that is planned. An object
// that has none may be left out.
type Owners map[objref.Ref][]Owner

// Peer is another Binding, as far as it matters to the one that is planned.
type Peer struct {
	WDS     WDS
	Source  string
	Binding string
	// Works are works of the Binding in the mailbox.
	Works []*Work
	// Lists reports whether the Binding lists an object at the destination. It is nil if that is
	// not known, as with other WDSes.
	Lists func(objref.Ref) bool
	// Orphans reports whether an object that the Binding does not list is to stay in the cluster.
	// It is nil if none is, or if that is not known.
	Orphans func(objref.Ref) bool
	// Writing: a write to the works is under way, or is not seen yet.
	Writing bool
}

// Add adds an Owner for each work of the peer that has an object which matters. Works that are
// being deleted, and objects that are withdrawn, count for nothing: a successor may come at once.
func (o Owners) Add(peer *Peer, matters func(objref.Ref) bool) {
	for _, work := range peer.Works {
		if work.Deleting {
			continue
		}
		for i := range work.Items {
			item := &work.Items[i]
			awaits := item.Awaited() && peer.WDS == WDS{}
			if item.Withdrawn && !awaits || !matters(item.Ref) {
				continue
			}
			owner := OwnerOf(work, item)
			if owner.Awaits = awaits; awaits {
				owner.State = OwnerListed
			}
			owner.WDS, owner.Source = peer.WDS, peer.Source
			owner.Leaving = peer.Lists != nil && !peer.Lists(item.Ref)
			owner.Orphans = owner.Leaving && (work.Begun || item.Seen) && peer.Orphans != nil && peer.Orphans(item.Ref)
			if owner.Writing = peer.Writing; owner.Writing {
				owner.State = min(owner.State, OwnerPending)
			}
			o[item.Ref] = append(o[item.Ref], owner)
		}
	}
}

// AddListed adds the peer as one that lists the object and can deliver it, unless one of its works
// has it.
func (o Owners) AddListed(peer *Peer, ref objref.Ref) {
	for i := range o[ref] {
		if owner := &o[ref][i]; owner.Binding == peer.Binding && owner.WDS == peer.WDS {
			return
		}
	}
	o[ref] = append(o[ref], Owner{WDS: peer.WDS, Source: peer.Source, Binding: peer.Binding, State: OwnerListed})
}

// Content returns the hash of the content in the owner's work, without what differs between WDSes
// that deliver the same.
func (o *Owner) Content() transform.Hash { return o.Item.Content() }

// Text names the owner for users: `Binding "b"` is of our WDS.
func (o *Owner) Text() string {
	name := fmt.Sprintf("Binding %q", o.Binding)
	if o.Binding == "" && o.Work != nil {
		name = "work " + o.Work.Name
	}
	switch {
	case o.WDS.Name != "":
		return fmt.Sprintf("WDS %q (%s)", o.WDS.Name, name)
	case o.WDS != WDS{}:
		return fmt.Sprintf("WDS %q (%s)", o.WDS.UID, name)
	case o.Source != "":
		return fmt.Sprintf("%s of this WDS (%s)", o.Source, name)
	}
	return name
}
