package match

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Match is an object that a policy selects.
type Match struct {
	// Ref identifies the object.
	Ref objref.Ref
	// Version is the API version in which it was seen.
	Version string
	// ResourceVersion is that of the last change of the object's content.
	ResourceVersion string
	// Exact tells whether that is known to be so. It is not for what was found at the start: a later version may be of a
	// status write, and which version had the content first is not to be seen.
	Exact bool
	// Modulation is how the object is carried. Shared: do not change it.
	Modulation *controlv1alpha1.DownsyncModulation
}

// Snapshot is what a policy selects at one moment.
type Snapshot struct {
	// Matches are the objects, sorted by group, version, resource, namespace and name.
	Matches []Match
	// Clusters are the destinations, sorted. Shared: do not change it.
	Clusters []string
	// Revision counts the changes of what is above. It is not comparable across policies or processes.
	Revision uint64
}

// Snapshot returns what the policy selects; false if it is not known, or held. It costs a sort of the objects, which holds up
// nobody else.
func (x *Index) Snapshot(name string) (Snapshot, bool) {
	snapshot, ok := x.unsorted(name)
	slices.SortFunc(snapshot.Matches, func(a, b Match) int {
		return cmp.Or(strings.Compare(a.Ref.Group, b.Ref.Group), strings.Compare(a.Version, b.Version), objref.Compare(a.Ref, b.Ref))
	})
	return snapshot, ok
}

func (x *Index) unsorted(name string) (Snapshot, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil || p.compiled == nil {
		return Snapshot{}, false
	}
	matches := make([]Match, 0, len(p.objects))
	for o := range p.objects {
		i := slices.IndexFunc(o.matches, func(m match) bool { return m.policy == p })
		matches = append(matches, Match{
			Ref:             o.ref(),
			Version:         o.resource.Version,
			ResourceVersion: o.resourceVersion,
			Exact:           o.edited || o.generation == 0,
			Modulation:      o.matches[i].modulation,
		})
	}
	return Snapshot{Matches: matches, Clusters: p.destinations(), Revision: p.revision}, true
}

// Revision returns that of a Snapshot taken now, without the cost of one; false if there is none.
func (x *Index) Revision(name string) (uint64, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil || p.compiled == nil {
		return 0, false
	}
	return p.revision, true
}

// Requests returns what is asked for the status of the object. Its cost is that of the policies that select the object, and
// of their destinations if more than one asks.
func (x *Index) Requests(ref objref.Ref) Requests {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.requests(ref, x.catalog.object(ref))
}

func (x *Index) requests(ref objref.Ref, o *object) Requests {
	answer := Requests{Known: x.policiesKnown && x.known(ref.GroupResource())}
	add := func(p *policy, m *controlv1alpha1.DownsyncModulation) {
		if wantsStatus(m) && !x.clustersKnown && !p.keptTold {
			answer.Known = false // it may go to clusters that nobody has told of
		}
		if m.WantSingletonReportedState {
			answer.SingletonClusters = unite(answer.Singleton, answer.SingletonClusters, p.destinations())
			answer.Singleton = true
		}
		if m.WantMultiWECReportedState {
			answer.MultiWECClusters = unite(answer.MultiWEC, answer.MultiWECClusters, p.destinations())
			answer.MultiWEC = true
		}
	}
	if o != nil {
		for _, m := range o.matches {
			add(m.policy, m.modulation)
		}
	}
	for p := range x.held[ref] {
		add(p, p.held[ref])
	}
	return answer
}

// Asking returns the policies that ask for the status of the object, sorted.
func (x *Index) Asking(ref objref.Ref) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	if o := x.catalog.object(ref); o != nil {
		for _, m := range o.matches {
			if wantsStatus(m.modulation) {
				names = append(names, m.policy.name)
			}
		}
	}
	for p := range x.held[ref] {
		if wantsStatus(p.held[ref]) {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Selecting returns the policies that select the object, sorted.
func (x *Index) Selecting(ref objref.Ref) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	o := x.catalog.object(ref)
	if o == nil {
		return nil
	}
	names := make([]string, len(o.matches))
	for i, m := range o.matches {
		names[i] = m.policy.name
	}
	slices.Sort(names)
	return names
}

// Destinations returns the clusters that a policy selects, sorted. They are shared: do not change them.
func (x *Index) Destinations(name string) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil {
		return nil
	}
	return p.destinations()
}

// unite returns what is in either of two sorted lists, sorted. It changes neither; without a first it returns the second.
func unite(isFirst bool, a, b []string) []string {
	if !isFirst {
		return b
	}
	united := slices.Concat(a, b)
	slices.Sort(united)
	return slices.Compact(united)
}

// Miscount is an object of which a singleton status is wanted and that does not go to exactly one cluster.
type Miscount struct {
	Ref      objref.Ref
	Kind     schema.GroupVersionKind
	Clusters int
}

// Miscounts returns the objects of the policy whose singleton status is wanted, by whichever policy, from a number of
// clusters that is not one: the first of them in order, at most limit. It costs a look at each object of the policy, if any
// policy asks for status.
func (x *Index) Miscounts(name string, limit int) []Miscount {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil {
		return nil
	}
	var found []Miscount
	for o := range p.objects {
		if !o.wantsStatus() {
			continue
		}
		ref := o.ref()
		if requests := x.requests(ref, o); requests.Singleton && len(requests.SingletonClusters) != 1 {
			found = append(found, Miscount{
				Ref:      ref,
				Kind:     schema.GroupVersionKind{Group: ref.Group, Version: o.resource.Version, Kind: o.resource.Kind},
				Clusters: len(requests.SingletonClusters),
			})
		}
	}
	slices.SortFunc(found, func(a, b Miscount) int { return objref.Compare(a.Ref, b.Ref) })
	return found[:min(len(found), limit)]
}
