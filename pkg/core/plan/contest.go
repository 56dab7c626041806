package plan

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// WDS identifies a workload definition space that is not ours. The zero WDS is ours.
type WDS struct {
	// UID is the space's identity.
	UID types.UID
	// Name is what it was called by whoever delivers from it. It identifies nothing.
	Name string
}

// Stake is what one work, which is no work of the Binding that is planned, has of an object in a mailbox: a delivery, or, with
// Observe, a claim to one. Works that are on their way out have none: a successor may come at once.
//
// Stakes of one source in a WDS are no conflict among each other, since all its Bindings deliver the same bytes. Sources of one WDS, a
// package beside an object, are told apart as WDSes are: a Stake of another source is one that is not Ours.
type Stake struct {
	// WDS is whose stake it is, zero if it is that of another Binding of ours.
	WDS WDS
	// Source names where the content comes from, if that is another source of our WDS than that of the Binding that is planned.
	Source string
	// Binding is the name of its Binding, Work that of the work.
	Binding, Work string
	// Created and UID are when the work was created, in seconds since 1970, and its UID.
	Created int64
	UID     types.UID
	// Hash is that of the content, without what differs between WDSes that deliver the same; Sourced tells that there is such.
	Hash    transform.Hash
	Sourced bool
	// Observe tells that this is a claim: nothing is delivered by it.
	Observe bool
}

// Ours tells whether the stake is one of our own source in our own WDS.
func (s *Stake) Ours() bool { return s.WDS == WDS{} && s.Source == "" }

// StakeOf returns the stake that a work has in one of its items.
func StakeOf(work *Work, item *Item) Stake {
	return Stake{
		WDS: work.Foreign, Binding: work.Binding, Work: work.Name, Created: work.Created, UID: work.UID,
		Hash: item.content(), Sourced: item.Bare != transform.Hash{}, Observe: item.Observe,
	}
}

// earlier orders stakes: deliveries before claims, then by the age of their works. It is the same seen from all sides.
func earlier(a, b *Stake) int {
	if a.Observe != b.Observe {
		if b.Observe {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(string(a.UID), string(b.UID)))
}

// Conflict says that another WDS wants the object at a destination with other content.
type Conflict struct {
	Ref objref.Ref
	// With is the other side's earliest stake.
	With Stake
	// Ours tells that our delivery stays; otherwise we only claim the object.
	Ours bool
}

// contest decides whether we deliver an object of this content, or only claim it. Ours are the stakes of our WDS, others those
// of all other ones. It returns the other side's earliest stake with other content, nil if there is none.
//
// The rule looks only at what all sides see, and at what each wants itself: a delivery is earlier than a claim, and of two
// of a kind that in the older work. Who is not the earliest claims, so after each has looked once, one delivers. The claims
// stay, and when the delivery leaves, the earliest of them follows. Somebody who has nothing yet waits behind whatever claims
// there are, but joins a delivery of the same bytes at once.
func contest(wanted transform.Hash, ours, others []Stake) (deliver bool, against *Stake) {
	mine := first(ours, func(*Stake) bool { return true })
	rival := first(others, func(s *Stake) bool { return s.Hash != wanted })
	switch {
	case rival == nil:
		return true, nil
	case mine != nil && earlier(mine, rival) < 0:
		return true, rival
	case rival.Observe && slices.ContainsFunc(others, func(s Stake) bool { return !s.Observe && s.Hash == wanted }):
		return true, rival
	}
	return false, rival
}

// first returns the earliest of those stakes that count, nil if none does.
func first(stakes []Stake, counts func(*Stake) bool) *Stake {
	var found *Stake
	for i := range stakes {
		if s := &stakes[i]; counts(s) && (found == nil || earlier(s, found) < 0) {
			found = s
		}
	}
	return found
}

// letGo are the options of an object that leaves without being deleted. The cluster drops its ownership, and writes no content
// any more: whoever takes over may have written already.
func letGo() Options { return Options{CreateOnly: true, Orphan: true} }

// released tells whether the cluster has reported that the object is not the work's any more: it may leave, and stays in the
// cluster. So is one that was never the work's.
func released(item *Item) bool { return item.Observe || item.Orphan && item.State == Applied }

// disputes finds out which objects are contested, and what becomes of them.
func (b *builder) disputes() {
	if len(b.site.Stakes) == 0 {
		return
	}
	own := map[objref.Ref][]Stake{}
	for _, work := range b.works {
		for j := range work.Items {
			item := &work.Items[j]
			if _, contested := b.site.Stakes[item.Ref]; contested && !item.Withdrawn {
				own[item.Ref] = append(own[item.Ref], StakeOf(work, item))
			}
		}
	}
	for i := range b.desired.objects {
		ref := b.desired.objects[i].Ref
		stakes, contested := b.site.Stakes[ref]
		if !contested || b.site.Hold.Holds(ref) || b.hold(i) && b.held[i] == nowhere {
			continue
		}
		hash := b.desired.objects[i].Content()
		if b.hold(i) {
			hash = b.item(b.held[i]).content() // what cannot be read now is wanted as it is
		}
		ours, others := own[ref], []Stake(nil)
		for _, s := range stakes {
			if s.Ours() {
				ours = append(ours, s)
			} else {
				others = append(others, s)
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

// heir returns for whom an object that leaves must stay in the cluster, nil if for nobody. Also who delivers it already may be
// about to let it go.
func (b *builder) heir(ref objref.Ref) *Stake {
	return first(b.site.Stakes[ref], func(s *Stake) bool { return !s.Ours() || !s.Observe })
}

// HandOver says that an object leaves as soon as the destination has reported that it is not ours any more, so that somebody
// else can take it over as it is.
type HandOver struct {
	Ref objref.Ref
	To  Stake
	// Failed is what the destination said of the object if it could not be released.
	Failed *Item
}
