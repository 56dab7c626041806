package variant

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

// RenderCache stores the results of the templates of a set, so that templates are evaluated again
// only for targets that changed. It makes planning faster and never changes the plan. The zero
// value is ready for use. It is for one set and one planning at a time.
type RenderCache struct {
	compiled *Compiled
	upstream Metadata
	known    map[targetKey]*rendering
	// round is the number of the current planning. Entries of earlier rounds are removed at its
	// end.
	round int
}

// targetKey identifies a target of one generation of a set.
type targetKey struct {
	spec, entry                    int
	repository, pkg, object, space string
}

// rendering is the result of the template of a target. Only its cache fields change.
type rendering struct {
	spec *configv1alpha1.PackageVariantSpec
	err  error
	// wrong lists the errors in spec.
	wrong []string
	// cost of the evaluation, in units of CEL.
	cost uint64
	// exhausted is true if err says that the cost limit of the set is exceeded, which depends on
	// other targets. interrupted is true if err says that the context ended.
	exhausted, interrupted bool
	// object is the selected object; named is the name of the Repository; repository is the
	// Repository, nil if it does not exist.
	object, repository *Metadata
	named              string

	round int
	// uid and generation identify a PackageVariant that has the same spec.
	uid        types.UID
	generation int64
}

// same reports whether two objects are equal for expressions.
func same(a, b *Metadata) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Namespace == b.Namespace && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// begin starts a round. It drops all entries if the expressions or the upstream changed.
func (m *RenderCache) begin(compiled *Compiled, upstream *Metadata) {
	if m.known == nil || m.compiled != compiled || !same(&m.upstream, upstream) {
		m.compiled, m.upstream, m.known = compiled, *upstream, map[targetKey]*rendering{}
	}
	m.round++
}

// end drops all entries that were not used since begin.
func (m *RenderCache) end() {
	maps.DeleteFunc(m.known, func(_ targetKey, r *rendering) bool { return r.round != m.round })
}

func keyOf(t *Target) targetKey {
	key := targetKey{spec: t.Spec, entry: t.Entry, repository: t.Repository, pkg: t.Package}
	if t.Object != nil {
		key.object, key.space = t.Object.Name, t.Object.Namespace
	}
	return key
}

// rendered returns the result of the template of a target, from the cache if possible.
func (r *renderer) rendered(t *Target, cache *RenderCache) *rendering {
	key := keyOf(t)
	if was := cache.known[key]; was != nil && r.spent+was.cost <= setLimit && same(was.object, t.Object) && same(was.repository, r.metadata(was.named)) {
		r.spent += was.cost
		was.round = cache.round
		return was
	}
	now := r.render(t)
	now.round = cache.round
	if !now.exhausted && !now.interrupted {
		cache.known[key] = now
	}
	return now
}

func (r *renderer) metadata(repository string) *Metadata {
	if found := r.repositories[repository]; found != nil {
		return &found.Metadata
	}
	return nil
}

// has reports whether a PackageVariant has the spec of the rendering. It compares once for each
// generation of the PackageVariant.
func (r *rendering) has(pv *configv1alpha1.PackageVariant) bool {
	if pv.UID != "" && pv.Generation > 0 && r.uid == pv.UID && r.generation == pv.Generation {
		return true
	}
	if !apiequality.Semantic.DeepEqual(&pv.Spec, r.spec) {
		return false
	}
	r.uid, r.generation = pv.UID, pv.Generation
	return true
}
