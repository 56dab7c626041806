package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// A cluster that loses a CustomResourceDefinition deletes all objects of its kind, no matter which
// work they come from. So a definition stays in its work while the mailbox has, or is to have, such
// objects: those that the Binding itself wants or keeps, and those of all other Bindings and WDSes.
// Objects that leave together with their definition do not count.
//
// A definition that another owner delivers may leave: the cluster keeps it for that owner.

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// IsDefinition reports whether an object is a CustomResourceDefinition.
func IsDefinition(ref objref.Ref) bool { return ref.GroupResource() == definitions }

// DefinitionOf returns the CustomResourceDefinition that an object would have. For a kind that is
// built into API servers there is none.
func DefinitionOf(gr schema.GroupResource) objref.Ref {
	return objref.New(definitions, "", gr.String())
}

// Dependent is an object of another Binding that needs a CustomResourceDefinition.
type Dependent struct {
	Ref objref.Ref
	// Owner has the object, or is to have it. Its Work may be nil.
	Owner Owner
	// Unknown: what the Binding has is not known yet. Ref is zero then.
	Unknown bool
}

// Dependents are what other Bindings have, or are to have, in a mailbox, by the
// CustomResourceDefinition that it needs.
type Dependents map[objref.Ref][]Dependent

// Requirement says that a CustomResourceDefinition is not wanted any more and stays because objects
// need it.
type Requirement struct {
	Ref objref.Ref
	// Own are objects of the Binding, Others those of other Bindings. Both are sorted.
	Own    []objref.Ref
	Others []Dependent
}

// requirement returns why a definition that is not wanted stays; nil if it may leave.
func (b *builder) requirement(item *Item) *Requirement {
	claim := item.Observe && !item.Withdrawn
	if item.Orphan || claim || slices.ContainsFunc(b.now.Owners[item.Ref], keepsItThere) {
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

// ownDependents returns the objects that need a definition and that the Binding wants, or that stay
// in its works.
func (b *builder) ownDependents(definition objref.Ref) []objref.Ref {
	var refs []objref.Ref
	needs := func(ref objref.Ref) bool { return ref.Group != "" && DefinitionOf(ref.GroupResource()) == definition }
	for i := range b.desired.objects {
		if ref := b.desired.objects[i].Ref; needs(ref) {
			refs = append(refs, ref)
		}
	}
	for work, item := range Items(b.works) {
		if needs(item.Ref) && !b.desired.Wants(item.Ref) && !item.Withdrawn && (b.isHeld(work, item) || b.leaving[item].how != removal) {
			refs = append(refs, item.Ref)
		}
	}
	slices.SortFunc(refs, objref.Compare)
	return slices.Compact(refs)
}

// requirements finds the definitions that stay.
func (b *builder) requirements() {
	found := map[objref.Ref]*Requirement{}
	for work, item := range Items(b.works) {
		if !IsDefinition(item.Ref) || b.desired.Wants(item.Ref) || b.isHeld(work, item) || found[item.Ref] != nil {
			continue // most are of other kinds
		}
		if r := b.requirement(item); r != nil {
			found[item.Ref] = r
			b.plan.Required = append(b.plan.Required, *r)
		}
	}
	if len(found) > 0 {
		b.required = found
	}
	slices.SortFunc(b.plan.Required, func(x, y Requirement) int { return objref.Compare(x.Ref, y.Ref) })
}

// requires reports whether a definition that is not wanted stays.
func (b *builder) requires(ref objref.Ref) bool { return b.required[ref] != nil }

// restoredRequired reports whether the cluster needs a definition that is not wanted and that works
// have which were restored from a backup.
func restoredRequired(restored []*Work, d *Desired, now *Current) bool {
	b := &builder{desired: d, now: now, works: now.Works}
	for _, item := range Items(restored) {
		if IsDefinition(item.Ref) && !d.Wants(item.Ref) && b.requirement(item) != nil {
			return true
		}
	}
	return false
}
