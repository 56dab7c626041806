package variant

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

// Rendered remembers what the templates of a set yielded, so that they are evaluated again only for targets that changed. What is planned
// does not depend on it, only how fast. The zero value is ready for use. It is for one set and one planning at a time.
type Rendered struct {
	compiled *Compiled
	upstream Metadata
	known    map[targetKey]*rendering
	// round tells those that were asked for in this planning from those that can be forgotten.
	round int
}

// targetKey identifies a target of one generation of a set.
type targetKey struct {
	spec, entry                    int
	repository, pkg, object, space string
}

// rendering is what came of the template of a target. It is not changed, but for what is remembered with it.
type rendering struct {
	spec *configv1alpha1.PackageVariantSpec
	err  error
	// wrong is what is wrong with spec.
	wrong []string
	// cost is what it cost, in units of CEL.
	cost uint64
	// exhausted tells that err says that all that the set may cost is spent, which depends on the others.
	exhausted bool
	// object is what was selected, named the Repository that was asked for, and repository what that was, nil if there was none.
	object, repository *Metadata
	named              string

	round int
	// uid and generation are of a PackageVariant that was compared with spec, and had it.
	uid        types.UID
	generation int64
}

// same tells whether expressions see the same of two objects.
func same(a, b *Metadata) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Namespace == b.Namespace && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// begin forgets what was rendered of something else.
func (m *Rendered) begin(compiled *Compiled, upstream *Metadata) {
	if m.known == nil || m.compiled != compiled || !same(&m.upstream, upstream) {
		m.compiled, m.upstream, m.known = compiled, *upstream, map[targetKey]*rendering{}
	}
	m.round++
}

// end forgets what was not asked for since begin.
func (m *Rendered) end() {
	maps.DeleteFunc(m.known, func(_ targetKey, r *rendering) bool { return r.round != m.round })
}

func keyOf(t *Target) targetKey {
	key := targetKey{spec: t.Spec, entry: t.Entry, repository: t.Repository, pkg: t.Package}
	if t.Object != nil {
		key.object, key.space = t.Object.Name, t.Object.Namespace
	}
	return key
}

// rendered returns what the template of a target yields, evaluated or remembered.
func (r *renderer) rendered(t *Target, memory *Rendered) *rendering {
	key := keyOf(t)
	if was := memory.known[key]; was != nil && r.spent+was.cost <= setLimit && same(was.object, t.Object) && same(was.repository, r.metadata(was.named)) {
		r.spent += was.cost
		was.round = memory.round
		return was
	}
	now := r.render(t)
	now.round = memory.round
	if !now.exhausted {
		memory.known[key] = now
	}
	return now
}

func (r *renderer) metadata(repository string) *Metadata {
	if found := r.repositories[repository]; found != nil {
		return &found.Metadata
	}
	return nil
}

// has tells whether a PackageVariant has the spec of a rendering, which costs a comparison once for each generation of it.
func (r *rendering) has(pv *configv1alpha1.PackageVariant, compare func(a, b any) bool) bool {
	if pv.UID != "" && pv.Generation > 0 && r.uid == pv.UID && r.generation == pv.Generation {
		return true
	}
	if !compare(&pv.Spec, r.spec) {
		return false
	}
	r.uid, r.generation = pv.UID, pv.Generation
	return true
}
