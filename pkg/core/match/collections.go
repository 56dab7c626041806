package match

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Pair is an object and a policy.
type Pair struct {
	Ref    objref.Ref
	Policy string
}

// Collection is what a policy asks to be combined of what clusters report of an object.
type Collection struct {
	// Known is false while something that could change the answer has not been read since the start: the policies, the object's
	// resource, the Namespaces, or where the policy delivers to. Then nothing may be taken back (invariant 1).
	Known bool
	// Collectors are the names of the StatusCollectors, sorted; none if nothing is asked. Shared: do not change it.
	Collectors []string
	// Clusters are the destinations of the policy, sorted. Shared: do not change it.
	Clusters []string
	// UID is that of the object.
	UID types.UID
	// Version is the resourceVersion of the last change of the object's content.
	Version string
}

// CollectionObserver is told what may have changed in the answers of Index.Collection. It is called as an Observer is.
type CollectionObserver interface {
	// OnCollections names pairs whose Collections may have changed. The slice is the observer's.
	OnCollections(pairs []Pair)
	// OnClusterLabels says that the labels of a cluster changed that was known before.
	OnClusterLabels(cluster string)
	// OnKnown says that Collection.Known may have become true for all objects of that resource; for the zero GroupResource, for
	// all objects.
	OnKnown(gr schema.GroupResource)
}

// Collection returns what the policy asks to be combined for the object. Its cost is that of the policies that select the object.
func (x *Index) Collection(pair Pair) Collection {
	x.mu.Lock()
	defer x.mu.Unlock()
	answer := Collection{Known: x.policiesKnown}
	p := x.policies[pair.Policy]
	if p == nil || p.compiled != nil && !p.compiled.collects {
		return answer
	}
	answer.Known = answer.Known && x.known(pair.Ref.GroupResource())
	o := x.catalog.object(pair.Ref)
	if o == nil {
		return answer
	}
	modulation := p.held[pair.Ref]
	if i := slices.IndexFunc(o.matches, func(m match) bool { return m.policy == p }); i >= 0 {
		modulation = o.matches[i].modulation
	}
	if !collects(modulation) {
		return answer
	}
	if !x.clustersKnown && !p.keptTold {
		answer.Known = false // it may go to clusters that nobody has told of
	}
	answer.Collectors, answer.Clusters = sortedNames(modulation), p.destinations()
	answer.UID, answer.Version = o.uid, o.resourceVersion
	return answer
}

// ClusterLabels returns the labels of an accepted cluster, none if it is not one; known is false while an ITS could still tell of
// it. Shared: do not change them.
func (x *Index) ClusterLabels(cluster string) (labels map[string]string, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	labels, accepted := x.clusters[cluster]
	return labels, accepted || x.clustersKnown
}

// sortedNames returns the names of the collectors. Those of clauses are sorted; those that a Binding holds perhaps not.
func sortedNames(m *controlv1alpha1.DownsyncModulation) []string {
	if isSet(m.StatusCollectors) {
		return m.StatusCollectors
	}
	names := slices.Clone(m.StatusCollectors)
	slices.Sort(names)
	return slices.Compact(names)
}

// collection notes that the Collection of the policy for the object may have changed.
func (c *changing) collection(p *policy, ref objref.Ref) {
	if c.pairs == nil {
		c.pairs = map[Pair]struct{}{}
	}
	c.pairs[Pair{ref, p.name}] = struct{}{}
}

// collectionsOf notes that all Collections of the policy may have changed.
func (c *changing) collectionsOf(p *policy) {
	for ref, modulation := range p.held {
		if collects(modulation) {
			c.collection(p, ref)
		}
	}
	if p.compiled != nil && !p.compiled.collects {
		return
	}
	for o := range p.objects {
		if slices.ContainsFunc(o.matches, func(m match) bool { return m.policy == p && collects(m.modulation) }) {
			c.collection(p, o.ref())
		}
	}
}

// heldCollections notes the Collections of those who hold the object without a clause: it came, went or changed.
func (x *Index) heldCollections(c *changing, ref objref.Ref) {
	for p := range x.held[ref] {
		if collects(p.held[ref]) {
			c.collection(p, ref)
		}
	}
}
