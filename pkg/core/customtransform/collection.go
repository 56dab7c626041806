package customtransform

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/jsonpath"
	"github.com/starlinghq/starling/pkg/core/nested"
)

// Collection is a cache of the instructions of CustomTransforms, for the GroupResources that
// Bindings use. It consists of these relations:
//
//	USES         (binding, GroupResource)           a Binding lists objects of the GroupResource
//	INSTRUCTIONS (GroupResource) -> removes         the fields that are removed from its objects
//	SPECS        (name) -> GroupResource, removes   the spec of a CustomTransform, as it was used
//	VALID        (name) -> GroupResource, removes   the last valid spec of a CustomTransform
//
// Between any two calls these hold:
//
//  1. INSTRUCTIONS has a row for a GroupResource if and only if USES has one or more.
//  2. SPECS has a row for a CustomTransform if and only if that CustomTransform contributed to a
//     row that is in INSTRUCTIONS.
//  3. VALID has rows only for CustomTransforms that exist, according to the calls of Note.
//
// A row of INSTRUCTIONS that may be outdated is removed, together with its rows of USES and SPECS.
// The Bindings that lose a row of USES in this way are returned: their next call of Changes derives
// the row again.
//
// The cost of a call is proportional to what it touches: the CustomTransforms of one or two
// GroupResources, and the Bindings that use those. A Collection is safe for concurrent use.
type Collection struct {
	list func(schema.GroupResource) []*controlv1alpha1.CustomTransform

	mu sync.Mutex
	// USES, by Binding. row.bindings has it by GroupResource.
	uses nested.Map[string, schema.GroupResource, struct{}]
	// INSTRUCTIONS.
	rows map[schema.GroupResource]*row
	// SPECS, by name. row.transforms has the names by GroupResource.
	specs map[string]spec
	// VALID, by name.
	valid map[string]spec
}

type row struct {
	instructions *Instructions
	bindings     map[string]struct{}
	transforms   map[string]struct{}
}

// spec is a spec of a CustomTransform. The UID distinguishes it from another CustomTransform of the
// same name.
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

// NewCollection returns an empty Collection. List returns the current CustomTransforms for a
// GroupResource. It is called while the Collection is locked, and its result is read only.
func NewCollection(list func(schema.GroupResource) []*controlv1alpha1.CustomTransform) *Collection {
	return &Collection{
		list:  list,
		rows:  map[schema.GroupResource]*row{},
		specs: map[string]spec{},
		valid: map[string]spec{},
	}
}

// Changes returns the instructions for objects of a GroupResource that a Binding lists, and records
// that the Binding uses it. KubeStellar calls this "getCustomTransformChanges". If it finds that
// the GroupResource of a CustomTransform has changed, it returns the affected Bindings, which must
// be processed again.
//
// Unlike KubeStellar's, it does not change the status of CustomTransforms, which does not depend on
// their use.
func (c *Collection) Changes(binding string, about schema.GroupResource) (instructions *Instructions, again []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rows[about]
	if r == nil {
		r, again = c.derive(about)
	}
	r.bindings[binding] = struct{}{}
	c.uses.Set(binding, about, struct{}{})
	return r.instructions, again
}

// derive adds a row to INSTRUCTIONS, and the rows of SPECS that contribute to it. The caller adds a
// row to USES.
func (c *Collection) derive(about schema.GroupResource) (r *row, again []string) {
	r = &row{bindings: map[string]struct{}{}, transforms: map[string]struct{}{}}
	removes := map[string]jsonpath.Path{}
	var unknown []string
	for _, ct := range c.list(about) {
		// SPECS has one row for each name. A later Note of this change will not find the former
		// GroupResource there any more, so its row is dropped here.
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

// Note records that a CustomTransform was created or changed, or deleted if ct is nil. KubeStellar
// calls this "noteCustomTransform". It returns the Bindings that must be processed again.
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

// Reset removes all rows of INSTRUCTIONS: the next call of Changes derives each again from the
// current CustomTransforms. The Bindings must be processed again.
func (c *Collection) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for about := range c.rows {
		c.drop(about)
	}
}

// SetBindingGroupResources records all the GroupResources that a Binding uses, and removes those
// that it used before. KubeStellar calls this "setBindingGroupResources". It adds no rows; Changes
// does.
func (c *Collection) SetBindingGroupResources(binding string, used []schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for about := range c.uses[binding] {
		if slices.Contains(used, about) {
			continue
		}
		c.uses.Delete(binding, about)
		r := c.rows[about]
		delete(r.bindings, binding)
		if len(r.bindings) == 0 {
			c.drop(about)
		}
	}
}

// InForce returns the spec that is applied instead of the spec of a CustomTransform with errors,
// nil if there is none.
func (c *Collection) InForce(ct *controlv1alpha1.CustomTransform) *controlv1alpha1.CustomTransformSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inForce(ct)
}

// drop removes the row of INSTRUCTIONS for a GroupResource, if it exists, with its rows of USES and
// SPECS. It returns the Bindings that used it, sorted.
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
		c.uses.Delete(binding, about)
	}
	return slices.Sorted(maps.Keys(r.bindings))
}

// effective returns what a CustomTransform removes; ok is false if that is unknown. It stores a
// valid spec in VALID.
func (c *Collection) effective(ct *controlv1alpha1.CustomTransform) (removes map[string]jsonpath.Path, ok bool) {
	removes, errs := parse(&ct.Spec)
	if len(errs) == 0 {
		c.valid[ct.Name] = specOf(ct)
		return removes, true
	}
	inForce := c.inForce(ct)
	if inForce == nil {
		return nil, false
	}
	removes, _ = parse(inForce)
	return removes, true
}

// inForce returns the last valid spec of a CustomTransform: from VALID or, after a restart, from
// its status. The spec must have the current GroupResource, which is valid in spite of the errors:
// if the GroupResource has changed, the user no longer intends the former one.
func (c *Collection) inForce(ct *controlv1alpha1.CustomTransform) *controlv1alpha1.CustomTransformSpec {
	if last, ok := c.valid[ct.Name]; ok && last.uid == ct.UID {
		if last.about != GroupResource(&ct.Spec) {
			return nil
		}
		return &controlv1alpha1.CustomTransformSpec{APIGroup: last.about.Group, Resource: last.about.Resource, Remove: last.removes}
	}
	stored := ct.Status.InForce
	if stored == nil || GroupResource(stored) != GroupResource(&ct.Spec) {
		return nil
	}
	if _, errs := parse(stored); len(errs) > 0 {
		return nil
	}
	return stored
}
