package placement

import (
	"maps"
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// Transactions of packages hold objects of the WDS, whichever Binding delivers them. What they hold
// is in the Binding pkgv1.HoldsBinding. All Bindings come from one watch, so who sees a Binding
// that was created or changed during a Transaction has seen before what that Transaction holds: it
// is read where the informer has it, at the moment when a mailbox is planned.

// parsedHolds are Holds with the text that they were parsed from.
type parsedHolds struct {
	text  string
	holds plan.Holds
}

// Held returns what Transactions hold. It does not block, and may be called inside View.
func (x *Index) Held() plan.Holds {
	binding, err := x.Binding(pkgv1.HoldsBinding)
	if err != nil || binding == nil {
		return plan.Holds{}
	}
	text, has := binding.Annotations[pkgv1.AnnotationHeldObjects]
	if !has {
		return plan.Holds{}
	}
	if known := x.held.Load(); known != nil && known.text == text {
		return known.holds
	}
	holds, _ := plan.ParseHolds(text) // the status of the Binding says what is wrong
	x.held.Store(&parsedHolds{text, holds})
	return holds
}

// HoldAt returns what the user and Transactions hold of a Binding in a mailbox. It does not block,
// and may be called inside View.
func (x *Index) HoldAt(p *Placement, mailbox string) plan.Hold {
	if p.Source != "" {
		return p.Annotations.Hold // its objects are not those of the WDS
	}
	return p.Annotations.Hold.Union(x.Held().At(mailbox))
}

// heldOf returns what Transactions hold of the objects that a Binding lists or has delivered. List
// its objects before: what changes meanwhile enqueues the Binding.
func (g *Gatherer) heldOf(binding *controlv1alpha1.Binding) plan.Holds {
	held := g.index.Held()
	if binding.Name == pkgv1.HoldsBinding || !held.Any() {
		return held
	}
	if SourceOf(binding) != "" {
		return plan.Holds{}
	}
	delivered, _ := g.config.Mailboxes.Delivered(binding.UID)
	return held.Of(func(ref objref.Ref) bool {
		_, has := delivered[ref]
		return has || slices.Contains(g.index.Listing(ref), binding.Name)
	})
}

// syncHeld enqueues the Bindings that list or have delivered an object that is held now or was held
// before. Nothing else would: of an object that was held, no event is to come.
func (g *Gatherer) syncHeld() {
	now := g.index.Held()
	before := g.held
	if now.Equal(before) {
		return
	}
	g.held = now
	refs, all := now.Refs()
	more, allBefore := before.Refs()
	maps.Copy(refs, more)
	concerned := map[string]bool{}
	for ref := range refs {
		for _, name := range g.index.Listing(ref) {
			concerned[name] = true
		}
	}
	for _, p := range g.index.All() {
		if concerned[p.Name] || p.Source != "" {
			continue
		}
		delivered, _ := g.config.Mailboxes.Delivered(p.UID)
		for ref := range refs {
			_, has := delivered[ref]
			concerned[p.Name] = concerned[p.Name] || has
		}
		concerned[p.Name] = concerned[p.Name] || all || allBefore
	}
	for name, is := range concerned {
		if is {
			g.note(name, "", func(c *change) { c.whole, c.held = true, true })
		}
	}
}
