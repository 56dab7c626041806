package match

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Pair is an object and a policy.
type Pair struct {
	Ref    objref.Ref
	Policy string
}

// Collection is what a policy asks to be combined of what clusters report of an object.
type Collection struct {
	// Known is false while something that could change the answer has not been read since the
	// start: the policies, the object's resource, the Namespaces, or where the policy delivers to.
	// Then nothing may be taken back (invariant 1).
	Known bool
	// Collectors are the names of the StatusCollectors, sorted; none if nothing is asked. Shared:
	// do not change it.
	Collectors []string
	// Clusters are the destinations of the policy, sorted. Shared: do not change it.
	Clusters []string
	// UID is that of the object, PolicyUID that of the policy.
	UID, PolicyUID types.UID
	// Version is the resourceVersion of the last change of the object's content.
	Version string
}

// Collection returns what the policy asks to be combined for the object. Its cost is that of the
// policies that select the object.
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
	modulation := cmp.Or(o.modulation(p), p.frozen[pair.Ref])
	if !collects(modulation) {
		return answer
	}
	if !x.clustersKnown && !p.retainedKnown {
		answer.Known = false // it may go to clusters that are not known yet
	}
	// Those of clauses are sorted; those that a Binding holds perhaps not.
	answer.Collectors, answer.Clusters = mergeModulation(nil, modulation).StatusCollectors, p.destinations()
	answer.UID, answer.PolicyUID, answer.Version = o.uid, p.uid, o.resourceVersion
	return answer
}

// ClusterLabels returns the labels of an accepted cluster, none if it is not one; known is false
// while an ITS could still report it. Shared: do not change them.
func (x *Index) ClusterLabels(cluster string) (labels map[string]string, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	labels, accepted := x.clusters[cluster]
	return labels, accepted || x.clustersKnown
}
