package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// A cluster that loses a CustomResourceDefinition deletes all objects of its kind, and one that
// loses a Namespace all objects in it, no matter which work they come from. So both stay in their
// work while the mailbox has, or is to have, such objects: those that the Binding itself wants or
// keeps, and those of all other Bindings and WDSes. Objects that leave together with their
// definition or Namespace do not count.
//
// What another owner delivers as well may leave: the cluster keeps it for that owner.

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// IsPrerequisite reports whether other objects can need the object: whether it is a Namespace or a
// CustomResourceDefinition.
func IsPrerequisite(ref objref.Ref) bool {
	return ref.GroupResource() == definitions || ref.GroupResource() == namespaces
}

// DefinitionOf returns the CustomResourceDefinition that an object would have. For a kind that is
// built into API servers there is none.
func DefinitionOf(gr schema.GroupResource) objref.Ref {
	return objref.New(definitions, "", gr.String())
}

// Dependent is an object of another Binding that needs a CustomResourceDefinition or a Namespace.
type Dependent struct {
	Ref objref.Ref
	// Owner has the object, or is to have it. Its Work may be nil.
	Owner Owner
	// Unknown: what the Binding has is not known yet. Ref is zero then.
	Unknown bool
}

// Dependents are what other Bindings have, or are to have, in a mailbox, by what it needs.
type Dependents map[objref.Ref][]Dependent

// Requirement says that a CustomResourceDefinition or a Namespace is not wanted any more and stays
// because objects need it.
type Requirement struct {
	Ref objref.Ref
	// Own are objects of the Binding, Others those of other Bindings. Both are sorted.
	Own    []objref.Ref
	Others []Dependent

	// keeper is the item that stays if there are several; nil: all of them stay, since the cluster
	// may have the object from any of them.
	keeper *Item
}

// requirement returns why a prerequisite that is not wanted stays; nil if it may leave.
func (b *builder) requirement(item *Item) *Requirement {
	if item.Orphan || item.Claim() || slices.ContainsFunc(b.now.Owners[item.Ref], keepsItThere) {
		return nil
	}
	r := &Requirement{Ref: item.Ref, Own: b.ownDependents(item.Ref), Others: b.now.Dependents[item.Ref]}
	if len(r.Own)+len(r.Others) == 0 {
		return nil
	}
	return r
}

// keepsItThere reports whether the cluster keeps an object for an owner when we do not deliver it
// any more.
func keepsItThere(o Owner) bool {
	return !o.Leaving && (o.State == OwnerApplied || o.State == OwnerPending && o.WDS != WDS{}) && o.Item != nil && !o.Item.Orphan
}

// ownDependents returns the objects that need a prerequisite and that the Binding wants, or that
// stay in its works. All are found at once: a Binding can have many Namespaces.
func (b *builder) ownDependents(prerequisite objref.Ref) []objref.Ref {
	if b.dependents == nil {
		b.dependents = map[objref.Ref][]objref.Ref{}
		add := func(ref objref.Ref) {
			for _, need := range Prerequisites(ref) {
				b.dependents[need] = append(b.dependents[need], ref)
			}
		}
		for i := range b.desired.objects {
			add(b.desired.objects[i].Ref)
		}
		for work, item := range Items(b.works) {
			if !b.desired.Wants(item.Ref) && !item.Withdrawn && (b.isHeld(work, item) || b.leaving[item].how != removal) {
				add(item.Ref)
			}
		}
	}
	refs := b.dependents[prerequisite]
	slices.SortFunc(refs, objref.Compare)
	return slices.Compact(refs)
}

// requirements finds the definitions and Namespaces that stay.
func (b *builder) requirements() {
	found := map[objref.Ref]*Requirement{}
	for work, item := range Items(b.works) {
		if !IsPrerequisite(item.Ref) || b.desired.Wants(item.Ref) || b.isHeld(work, item) {
			continue // most are of other kinds
		}
		r := found[item.Ref]
		if r == nil {
			if r = b.requirement(item); r == nil {
				continue
			}
			found[item.Ref] = r
			b.plan.Required = append(b.plan.Required, *r)
		}
		if r.keeper == nil && item.State == Applied && !item.Withdrawn {
			r.keeper = item
		}
	}
	if len(found) > 0 {
		b.required = found
	}
	slices.SortFunc(b.plan.Required, func(x, y Requirement) int { return objref.Compare(x.Ref, y.Ref) })
}

// requires reports whether a prerequisite that is not wanted stays. Of one that was moving from
// work to work, only one item does, once the cluster has the object from there.
func (b *builder) requires(item *Item) bool {
	r := b.required[item.Ref]
	return r != nil && (r.keeper == nil || r.keeper == item)
}

// restoredRequired reports whether the cluster needs a prerequisite that is not wanted and that
// works have which were restored from a backup.
func restoredRequired(restored []*Work, d *Desired, now *Current) bool {
	b := &builder{desired: d, now: now, works: now.Works}
	for _, item := range Items(restored) {
		if IsPrerequisite(item.Ref) && !d.Wants(item.Ref) && b.requirement(item) != nil {
			return true
		}
	}
	return false
}
