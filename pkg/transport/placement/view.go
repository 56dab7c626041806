package placement

import (
	"iter"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// View is the state of an Index at one moment. Use it only inside the function given to Index.View.
type View struct{ index *Index }

// View calls read with the state of the Index. The lock is held: read must not block, and must not
// call the Index.
func (x *Index) View(read func(View)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	read(View{x})
}

// Get returns the Placement of a Binding, nil if it is not known.
func (v View) Get(name string) *Placement { return v.index.placements[name] }

// Near are the Bindings that may deliver to some destinations: those of Placements there, and those
// that have no Placement yet, or a provisional one.
type Near struct {
	view View
	// placed is shared with the Index if it is of one destination.
	placed map[string]struct{}
}

// At returns the Bindings that may deliver to a destination.
func (v View) At(destination string) Near { return Near{v, v.index.at[destination]} }

// AtAny returns the Bindings that may deliver to one of the destinations.
func (v View) AtAny(destinations ...map[string]struct{}) Near {
	placed := map[string]struct{}{}
	for _, some := range destinations {
		for d := range some {
			maps.Copy(placed, v.index.at[d])
		}
	}
	return Near{v, placed}
}

// Listing returns the names of those of the Bindings that list an object, in no order. A Binding
// lists the objects of its Placement, and those that are being read for the next one. It costs the
// smaller one of the number of Bindings that list the object, and of those that may deliver to the
// destinations: a thousand packages for one cluster each may all have an object of the same name.
func (n Near) Listing(ref objref.Ref) iter.Seq[string] {
	listed, unplaced := n.view.index.listed[ref], n.view.index.unplaced
	return func(yield func(string) bool) {
		if len(listed) <= len(n.placed)+len(unplaced) {
			for name := range listed {
				_, placed := n.placed[name]
				if _, may := unplaced[name]; (placed || may) && !yield(name) {
					return
				}
			}
			return
		}
		for name := range n.placed {
			if _, lists := listed[name]; lists && !yield(name) {
				return
			}
		}
		for name := range unplaced {
			_, placed := n.placed[name]
			if _, lists := listed[name]; lists && !placed && !yield(name) {
				return
			}
		}
	}
}

// Lists reports whether a Binding lists an object.
func (v View) Lists(name string, ref objref.Ref) bool {
	_, lists := v.index.listed[ref][name]
	return lists
}

// OthersList reports whether a Binding other than that one lists an object.
func (v View) OthersList(name string, ref objref.Ref) bool {
	n := len(v.index.listed[ref])
	return n > 1 || n == 1 && !v.Lists(name, ref)
}

// Shared returns the objects of a Placement that other Bindings list as well. Mostly there are
// none. It costs the smaller one of the number of objects of the Placement and the number of
// objects that are shared at all.
func (v View) Shared(p *Placement) []objref.Ref {
	var found []objref.Ref
	if shared := v.index.shared; len(shared) < len(p.Objects) {
		for ref := range shared {
			if _, listed := p.Objects[ref]; listed {
				found = append(found, ref)
			}
		}
		return found
	}
	for ref := range p.Objects {
		if _, shared := v.index.shared[ref]; shared {
			found = append(found, ref)
		}
	}
	return found
}

// Source returns where the content of an existing Binding comes from; exists is false if no Binding
// has that UID.
func (v View) Source(uid types.UID) (source string, exists bool) {
	source, exists = v.index.sources[uid]
	return source, exists
}

// SeveralSources reports whether content can come from several sources: whether some Binding has
// packages.
func (v View) SeveralSources() bool { return v.index.withPackages > 0 }

// Identify returns the UID of a Binding, and where its content comes from.
func (v View) Identify(name string) (uid types.UID, source string) {
	if p := v.Get(name); p != nil {
		return p.UID, p.Source
	}
	if binding, err := v.index.Binding(name); err == nil && binding != nil {
		return binding.UID, SourceOf(binding)
	}
	return "", ""
}
