package transport

import (
	"cmp"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeversion "k8s.io/apimachinery/pkg/version"

	"github.com/starlinghq/starling/pkg/dynwatch"
)

// needs are the resources that Bindings list objects of: those of their placements, and those that are being gathered for the next
// ones. They say what is watched, and in which version.
type needs struct {
	by     map[schema.GroupResource]map[string]need // by name of the Binding
	chosen map[schema.GroupResource]dynwatch.Resource
}

// need is what one Binding says of a resource.
type need struct {
	resource dynwatch.Resource
	// policy tells that a policy's Binding says so.
	policy bool
}

func newNeeds() *needs {
	return &needs{by: map[schema.GroupResource]map[string]need{}, chosen: map[schema.GroupResource]dynwatch.Resource{}}
}

// add notes what a Binding needs, beside what it needed before. It tells whether another choice follows from it.
func (n *needs) add(p *placement) (changed bool) {
	for gr, resource := range p.resources {
		wants := need{resource, p.policy}
		if n.by[gr] == nil {
			n.by[gr] = map[string]need{}
		}
		if n.by[gr][p.name] != wants {
			n.by[gr][p.name] = wants
			changed = n.choose(gr) || changed
		}
	}
	return changed
}

// drop forgets what a Binding needed before. It tells whether another choice follows from it.
func (n *needs) drop(name string, before, after map[schema.GroupResource]dynwatch.Resource) (changed bool) {
	for gr := range before {
		if _, still := after[gr]; still {
			continue
		}
		delete(n.by[gr], name)
		changed = n.choose(gr) || changed
	}
	return changed
}

// choose chooses the version in which a resource is watched and read: one object has one content, though Bindings may name
// different versions. Policies' Bindings know what is served; among them and among the others most count, or one that was written
// with a mistake would keep all others from being read. Then the newest counts.
func (n *needs) choose(gr schema.GroupResource) (changed bool) {
	type support struct{ policies, all int }
	supports := map[dynwatch.Resource]support{}
	for _, wants := range n.by[gr] {
		s := supports[wants.resource]
		s.all++
		if wants.policy {
			s.policies++
		}
		supports[wants.resource] = s
	}
	before, was := n.chosen[gr]
	if len(supports) == 0 {
		delete(n.by, gr)
		delete(n.chosen, gr)
		return was
	}
	var best dynwatch.Resource
	found := false
	for resource, s := range supports {
		other := supports[best]
		if !found || cmp.Or(cmp.Compare(s.policies, other.policies), cmp.Compare(s.all, other.all),
			kubeversion.CompareKubeAwareVersionStrings(resource.Version, best.Version), int(step(best.Namespaced, resource.Namespaced))) > 0 {
			best, found = resource, true
		}
	}
	n.chosen[gr] = best
	return !was || before != best
}

// watchResources watches what p needs as well, and returns the version in which each of its resources is read.
func (c *Controller) watchResources(p *placement) map[schema.GroupResource]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.needs.add(p) {
		c.wanted.Set(maps.Clone(c.needs.chosen))
	}
	versions := make(map[schema.GroupResource]string, len(p.resources))
	for gr := range p.resources {
		versions[gr] = c.needs.chosen[gr].Version
	}
	return versions
}
