package placement

import (
	"cmp"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeversion "k8s.io/apimachinery/pkg/version"

	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// watches chooses what is watched, and in which version: the resources of the objects that Bindings
// list, those of their Placements and those that are being read for the next ones. It is safe for
// concurrent use.
type watches struct {
	source *dynamicinformer.Wanted

	mu     sync.Mutex
	by     nested.Map[schema.GroupResource, string, need] // by the name of the Binding
	chosen map[schema.GroupResource]dynamicinformer.Resource
}

// need is how one Binding names a resource.
type need struct {
	resource dynamicinformer.Resource
	// ofPolicy says that the Binding is that of a policy.
	ofPolicy bool
}

func newWatches() *watches {
	return &watches{source: dynamicinformer.NewWanted(), chosen: map[schema.GroupResource]dynamicinformer.Resource{}}
}

// add watches what a Placement needs, beside what its predecessor needed. It returns the version in
// which each of its resources is read.
func (w *watches) add(p *Placement) map[schema.GroupResource]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	for gr, resource := range p.watched {
		needed := need{resource, p.policy != ""}
		if w.by[gr][p.Name] != needed {
			w.by.Set(gr, p.Name, needed)
			changed = w.choose(gr) || changed
		}
	}
	if changed {
		w.source.Set(maps.Clone(w.chosen))
	}
	versions := make(map[schema.GroupResource]string, len(p.watched))
	for gr := range p.watched {
		versions[gr] = w.chosen[gr].Version
	}
	return versions
}

// drop stops watching what a Binding needed, except what its Placement, which may be nil, needs.
func (w *watches) drop(name string, after *Placement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := false
	for gr, needs := range w.by {
		if _, needed := needs[name]; !needed {
			continue
		}
		if after != nil {
			if _, still := after.watched[gr]; still {
				continue
			}
		}
		w.by.Delete(gr, name)
		changed = w.choose(gr) || changed
	}
	if changed {
		w.source.Set(maps.Clone(w.chosen))
	}
}

// choose chooses the version in which a resource is watched and read, and reports whether that is
// another one now. One object has one content, though Bindings may name different versions. The
// Bindings of policies name versions that are served, so the version that most of them name is
// chosen: a Binding that was written with a mistake must not keep the others from being read. After
// that, most Bindings count; then the newest version.
func (w *watches) choose(gr schema.GroupResource) (changed bool) {
	type support struct{ policies, all int }
	supports := map[dynamicinformer.Resource]support{}
	for _, needed := range w.by[gr] {
		s := supports[needed.resource]
		s.all++
		if needed.ofPolicy {
			s.policies++
		}
		supports[needed.resource] = s
	}
	before, chosen := w.chosen[gr]
	if len(supports) == 0 {
		delete(w.chosen, gr)
		return chosen
	}
	var best dynamicinformer.Resource
	found := false
	for resource, s := range supports {
		other := supports[best]
		if !found || cmp.Or(cmp.Compare(s.policies, other.policies), cmp.Compare(s.all, other.all),
			kubeversion.CompareKubeAwareVersionStrings(resource.Version, best.Version), int(Step(best.Namespaced, resource.Namespaced))) > 0 {
			best, found = resource, true
		}
	}
	w.chosen[gr] = best
	return !chosen || before != best
}
