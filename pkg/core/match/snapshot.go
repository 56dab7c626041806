package match

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Match is an object that a policy selects, or that a Binding lists.
type Match struct {
	// Ref identifies the object.
	Ref objref.Ref
	// Version is the API version in which it was seen.
	Version string
	// ResourceVersion is that of the last change of the object's content.
	ResourceVersion string
	// Exact reports whether that is known to be so. It is not for what was found at the start: a
	// later version may be of a status write, and which version had the content first is not to be
	// seen.
	Exact bool
	// Modulation is how the object is carried. Shared: do not change it.
	Modulation *controlv1alpha1.DownsyncModulation
}

// Compare orders Matches as the contract does: by group, version, resource, namespace and name.
func Compare(a, b Match) int {
	return cmp.Or(strings.Compare(a.Ref.Group, b.Ref.Group), strings.Compare(a.Version, b.Version), objref.Compare(a.Ref, b.Ref))
}

// Entries returns what a Binding lists, objects without a Namespace first; nothing for nil. The
// Modulations are those of the spec.
func Entries(spec *controlv1alpha1.BindingSpec) iter.Seq[Match] {
	return func(yield func(Match) bool) {
		if spec == nil {
			return
		}
		for i := range spec.Workload.ClusterScope {
			c := &spec.Workload.ClusterScope[i]
			ref := objref.Ref{Group: c.Group, Resource: c.Resource, Name: c.Name}
			if !yield(Match{Ref: ref, Version: c.Version, ResourceVersion: c.ResourceVersion, Modulation: &c.DownsyncModulation}) {
				return
			}
		}
		for i := range spec.Workload.NamespaceScope {
			c := &spec.Workload.NamespaceScope[i]
			ref := objref.Ref{Group: c.Group, Resource: c.Resource, Namespace: c.Namespace, Name: c.Name}
			if !yield(Match{Ref: ref, Version: c.Version, ResourceVersion: c.ResourceVersion, Modulation: &c.DownsyncModulation}) {
				return
			}
		}
	}
}

// Snapshot is what a policy selects at one moment.
type Snapshot struct {
	// Matches are the objects, sorted as Compare does.
	Matches []Match
	// Clusters are the destinations, sorted. Shared: do not change it.
	Clusters []string
	// Unseen are the listed clusters that the Index does not have, or that count as destinations
	// since nothing was known of them (RetainClusters).
	Unseen []string
	// Revision counts the changes of what is above. It is not comparable across policies or
	// processes.
	Revision uint64
}

// Listed is what the Bindings of a policy list.
type Listed struct {
	Objects  []objref.Ref
	Clusters []string
}

// Others are the policies that select what a policy no longer selects though its Bindings list it,
// at the same moment as the Snapshot.
type Others struct {
	// Selecting has the policies that select an object, sorted. It has all listed objects that the
	// policy no longer selects, and all listed objects if it no longer selects one of the listed
	// clusters.
	Selecting map[objref.Ref][]string
	// Clusters has the clusters that each of these policies selects, sorted. Shared: do not change
	// them.
	Clusters map[string][]string
	// Labels are those that the answers rely on.
	Labels Labels
}

// Labels are labels that selections rely on. Shared: do not change them.
type Labels struct {
	// Objects has the labels of the objects that could be in Selecting and exist, Namespaces those
	// of their Namespaces, as far as they are known.
	Objects    map[objref.Ref]map[string]string
	Namespaces map[string]map[string]string
	// Clusters has the labels of the listed clusters that are accepted, if there is an object.
	Clusters map[string]map[string]string
}

// Snapshot returns what the policy selects, and who selects what it no longer does of what is
// listed. It returns false if the policy is not known, or frozen. It sorts the objects, without the
// lock.
//
// Both answers are of one moment. Otherwise an object that is relabelled to another policy and back
// could look as if no policy selected it.
func (x *Index) Snapshot(name string, listed Listed) (Snapshot, Others, bool) {
	snapshot, others, ok := x.unsorted(name, listed)
	slices.SortFunc(snapshot.Matches, Compare)
	return snapshot, others, ok
}

func (x *Index) unsorted(name string, listed Listed) (Snapshot, Others, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil || p.compiled == nil {
		return Snapshot{}, Others{}, false
	}
	matches := make([]Match, 0, len(p.objects))
	for o := range p.objects {
		matches = append(matches, Match{
			Ref:             o.ref(),
			Version:         o.resource.Version,
			ResourceVersion: o.resourceVersion,
			Exact:           o.edited || o.generation == 0 && !hasStatusLabel(o.labels),
			Modulation:      o.modulation(p),
		})
	}
	return Snapshot{Matches: matches, Clusters: p.destinations(), Unseen: x.unseen(p, listed.Clusters), Revision: p.revision}, x.others(p, listed), true
}

// unseen returns which of the listed clusters the Index does not have, or not for the policy.
func (x *Index) unseen(p *policy, listed []string) (unseen []string) {
	for _, cluster := range listed {
		_, seen := x.clusters[cluster]
		if _, retained := slices.BinarySearch(p.retained, cluster); !seen || retained {
			unseen = append(unseen, cluster)
		}
	}
	return unseen
}

// Others returns who selects what is listed, for a policy that selects nothing any more.
func (x *Index) Others(name string, listed Listed) Others {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.others(&policy{name: name}, listed)
}

func (x *Index) others(p *policy, listed Listed) Others {
	others := Others{Selecting: map[objref.Ref][]string{}, Clusters: map[string][]string{}}
	labels := Labels{Objects: map[objref.Ref]map[string]string{}, Namespaces: map[string]map[string]string{}, Clusters: map[string]map[string]string{}}
	destinations := p.destinations()
	clusterLeaves := slices.ContainsFunc(listed.Clusters, func(cluster string) bool {
		_, selected := slices.BinarySearch(destinations, cluster)
		return !selected
	})
	for _, ref := range listed.Objects {
		o := x.catalog.object(ref)
		if o == nil {
			continue
		}
		if _, selected := p.objects[o]; selected && !clusterLeaves {
			continue
		}
		labels.Objects[ref] = o.labels
		if of, known := x.catalog.namespaces[o.namespace]; known {
			labels.Namespaces[o.namespace] = of
		}
		var names []string
		for _, m := range o.matches {
			if m.policy.name == p.name {
				continue
			}
			names = append(names, m.policy.name)
			if _, known := others.Clusters[m.policy.name]; !known {
				others.Clusters[m.policy.name] = m.policy.destinations()
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			others.Selecting[ref] = names
		}
	}
	if len(labels.Objects) > 0 {
		for _, cluster := range listed.Clusters {
			if of, known := x.clusters[cluster]; known {
				labels.Clusters[cluster] = of
			}
		}
	}
	others.Labels = labels
	return others
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

// Requests returns what is asked for the status of the object. Its cost is that of the policies
// that select the object, and of their destinations if more than one asks.
func (x *Index) Requests(ref objref.Ref) Requests {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.requests(ref)
}

func (x *Index) requests(ref objref.Ref) Requests {
	answer := Requests{Known: x.policiesKnown && x.known(ref.GroupResource())}
	for p, m := range x.selecting(ref) {
		if wantsStatus(m) && !x.clustersKnown && !p.retainedKnown {
			answer.Known = false // it may go to clusters that are not known yet
		}
		if m.WantSingletonReportedState {
			answer.SingletonClusters = unite(answer.SingletonClusters, p.destinations())
			answer.Singleton = true
		}
		if m.WantMultiWECReportedState {
			answer.MultiWECClusters = unite(answer.MultiWECClusters, p.destinations())
			answer.MultiWEC = true
		}
	}
	return answer
}

// selecting returns the policies that select the object, and how they carry it.
func (x *Index) selecting(ref objref.Ref) iter.Seq2[*policy, *controlv1alpha1.DownsyncModulation] {
	return func(yield func(*policy, *controlv1alpha1.DownsyncModulation) bool) {
		if o := x.catalog.object(ref); o != nil {
			for _, m := range o.matches {
				if !yield(m.policy, m.modulation) {
					return
				}
			}
		}
		for p := range x.frozen[ref] {
			if !yield(p, p.frozen[ref]) {
				return
			}
		}
	}
}

// Asking returns the policies that ask for the status of the object, sorted.
func (x *Index) Asking(ref objref.Ref) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for p, m := range x.selecting(ref) {
		if wantsStatus(m) {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// unite returns what is in either of two sorted lists, sorted. It changes neither; if the first is
// empty, it returns the second.
func unite(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	united := slices.Concat(a, b)
	slices.Sort(united)
	return slices.Compact(united)
}

// Miscount is an object of which a singleton status is wanted and that does not go to exactly one
// cluster.
type Miscount struct {
	Ref      objref.Ref
	Kind     schema.GroupVersionKind
	Clusters int
}

// Miscounts returns the objects of the policy whose singleton status is wanted, by whichever
// policy, from a number of clusters that is not one: the first of them in order, at most limit. It
// costs a look at each object of the policy, if any policy asks for status.
func (x *Index) Miscounts(name string, limit int) []Miscount {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[name]
	if p == nil {
		return nil
	}
	var found []Miscount
	for o := range p.objects {
		if !slices.ContainsFunc(o.matches, func(m match) bool { return wantsStatus(m.modulation) }) {
			continue
		}
		ref := o.ref()
		if requests := x.requests(ref); requests.Singleton && len(requests.SingletonClusters) != 1 {
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
