package customtransform

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/jsonpath"
)

// Collection is a cache of what CustomTransforms ask for, of those GroupResources that Bindings use. In terms of relations:
//
//	USES         (binding, GroupResource)           a Binding lists objects of the GroupResource
//	INSTRUCTIONS (GroupResource) -> removes         what to do with them
//	SPECS        (name) -> GroupResource, removes   the spec of a CustomTransform, as it was used
//	VALID        (name) -> GroupResource, removes   the last spec of a CustomTransform that had no errors
//
// Between any two calls these hold:
//
//  1. INSTRUCTIONS has a row for a GroupResource if and only if USES has one or more.
//  2. SPECS has a row for a CustomTransform if and only if that CustomTransform contributed to a row that is in INSTRUCTIONS.
//  3. VALID has rows for CustomTransforms only that exist, as far as Note was told.
//
// A row of INSTRUCTIONS in which there is no confidence any more is removed, and the rows of USES and SPECS that belong to it
// with it. The Bindings that lose a row of USES that way are returned: they have to ask again, and derive the row anew.
//
// Each call costs what it touches: the CustomTransforms of one or two GroupResources, and the Bindings that use those.
// It is safe for concurrent use.
type Collection struct {
	of func(schema.GroupResource) []*controlv1alpha1.CustomTransform

	mu sync.Mutex
	// USES, by Binding; and by GroupResource in row.bindings.
	uses map[string]map[schema.GroupResource]struct{}
	// INSTRUCTIONS.
	rows map[schema.GroupResource]*row
	// SPECS, by name; and by GroupResource in row.transforms.
	specs map[string]spec
	valid map[string]spec
}

type row struct {
	instructions *Instructions
	bindings     map[string]struct{}
	transforms   map[string]struct{}
}

// spec is a spec of a CustomTransform. The UID tells whether it is one of this CustomTransform or of another of its name.
type spec struct {
	uid     types.UID
	about   schema.GroupResource
	removes []string
}

func specOf(ct *controlv1alpha1.CustomTransform) spec {
	return spec{uid: ct.UID, about: GroupResource(&ct.Spec), removes: ct.Spec.Remove}
}

func (s spec) equal(other spec) bool {
	return s.uid == other.uid && s.about == other.about && slices.Equal(s.removes, other.removes)
}

// NewCollection returns an empty Collection. The function returns the CustomTransforms that there are at the moment for a
// GroupResource; it is called with the Collection locked, and what it returns is not changed.
func NewCollection(of func(schema.GroupResource) []*controlv1alpha1.CustomTransform) *Collection {
	return &Collection{
		of:    of,
		uses:  map[string]map[schema.GroupResource]struct{}{},
		rows:  map[schema.GroupResource]*row{},
		specs: map[string]spec{},
		valid: map[string]spec{},
	}
}

// Changes returns what to do with objects of a GroupResource that a Binding lists, and notes that the Binding uses it:
// "getCustomTransformChanges" in KubeStellar's description. In passing it may find that a CustomTransform is about another
// GroupResource than it was; the Bindings that this concerns are returned to be processed again.
//
// Unlike there, it leaves the status of CustomTransforms alone: that does not depend on whether they are used.
func (c *Collection) Changes(binding string, about schema.GroupResource) (instructions *Instructions, again []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rows[about]
	if r == nil {
		r, again = c.derive(about)
	}
	r.bindings[binding] = struct{}{}
	if c.uses[binding] == nil {
		c.uses[binding] = map[schema.GroupResource]struct{}{}
	}
	c.uses[binding][about] = struct{}{}
	return r.instructions, again
}

// derive adds a row to INSTRUCTIONS, and the rows to SPECS that contribute. The caller adds one to USES.
func (c *Collection) derive(about schema.GroupResource) (r *row, again []string) {
	r = &row{bindings: map[string]struct{}{}, transforms: map[string]struct{}{}}
	removes := map[string]jsonpath.Path{}
	var unknown []string
	for _, ct := range c.of(about) {
		// Whoever is told of this change later will not know the former GroupResource any more: SPECS has one row for each name.
		if old, ok := c.specs[ct.Name]; ok {
			again = append(again, c.drop(old.about)...)
		}
		c.specs[ct.Name] = specOf(ct)
		r.transforms[ct.Name] = struct{}{}
		paths, ok := c.effective(ct)
		if !ok {
			unknown = append(unknown, ct.Name)
		}
		maps.Copy(removes, paths)
	}
	r.instructions = newInstructions(removes, unknown)
	c.rows[about] = r
	return r, again
}

// Note takes notice of a CustomTransform that was created or changed, or with nil deleted: "noteCustomTransform" in
// KubeStellar's description. It returns the Bindings that have to be processed again.
func (c *Collection) Note(name string, ct *controlv1alpha1.CustomTransform) (again []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ct == nil {
		delete(c.valid, name)
	} else {
		c.effective(ct)
	}
	old, used := c.specs[name]
	if ct != nil && used && old.equal(specOf(ct)) {
		return nil
	}
	if used {
		again = c.drop(old.about)
	}
	if ct != nil {
		again = append(again, c.drop(GroupResource(&ct.Spec))...)
	}
	return again
}

// SetBindingGroupResources takes notice of all the GroupResources that a Binding uses, and forgets what it used before:
// "setBindingGroupResources" in KubeStellar's description. It adds nothing; Changes does.
func (c *Collection) SetBindingGroupResources(binding string, used []schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for about := range c.uses[binding] {
		if slices.Contains(used, about) {
			continue
		}
		delete(c.uses[binding], about)
		r := c.rows[about]
		delete(r.bindings, binding)
		if len(r.bindings) == 0 {
			c.drop(about)
		}
	}
	if len(c.uses[binding]) == 0 {
		delete(c.uses, binding)
	}
}

// InForce returns the spec that is carried out instead of that of a CustomTransform with errors; nil if there is none.
func (c *Collection) InForce(ct *controlv1alpha1.CustomTransform) *controlv1alpha1.CustomTransformSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inForce(ct)
}

// drop removes the row of INSTRUCTIONS for a GroupResource if there is one, and all of USES and SPECS that belongs to it. It
// returns the Bindings that used it, sorted.
func (c *Collection) drop(about schema.GroupResource) []string {
	r := c.rows[about]
	if r == nil {
		return nil
	}
	delete(c.rows, about)
	for name := range r.transforms {
		delete(c.specs, name)
	}
	for binding := range r.bindings {
		delete(c.uses[binding], about)
		if len(c.uses[binding]) == 0 {
			delete(c.uses, binding)
		}
	}
	return slices.Sorted(maps.Keys(r.bindings))
}

// effective returns what a CustomTransform removes; ok is false if that is not known. A spec without errors is remembered.
func (c *Collection) effective(ct *controlv1alpha1.CustomTransform) (removes map[string]jsonpath.Path, ok bool) {
	removes, errs := read(&ct.Spec)
	if len(errs) == 0 {
		c.valid[ct.Name] = specOf(ct)
		return removes, true
	}
	inForce := c.inForce(ct)
	if inForce == nil {
		return nil, false
	}
	removes, _ = read(inForce)
	return removes, true
}

// inForce returns the last valid spec of a CustomTransform: as it was seen here or, after a restart, as its status tells. It
// must be about the same GroupResource: that is readable in spite of the errors, so the former one is not meant any more.
func (c *Collection) inForce(ct *controlv1alpha1.CustomTransform) *controlv1alpha1.CustomTransformSpec {
	if last, ok := c.valid[ct.Name]; ok && last.uid == ct.UID {
		if last.about != GroupResource(&ct.Spec) {
			return nil
		}
		return &controlv1alpha1.CustomTransformSpec{APIGroup: last.about.Group, Resource: last.about.Resource, Remove: last.removes}
	}
	told := ct.Status.InForce
	if told == nil || GroupResource(told) != GroupResource(&ct.Spec) {
		return nil
	}
	if _, errs := read(told); len(errs) > 0 {
		return nil
	}
	return told
}
