package binding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// BindingPolicies, objects, Namespaces and clusters are watched separately, so of two changes the
// later one may be seen first. A user gives an object to another policy and deletes the first one:
// if the deletion is seen before the new label, no policy is known to select the object, and it
// would leave the clusters although it is always wanted there. The rule:
//
// What a removal relies on is read from the API servers before it is written. If something differs
// from what was seen, what it concerns stays until it is seen.
//
// The removal was decided on what was seen, so the reads show at least what happened before that.

// Leaving is what a Decision would remove from clusters although it exists in the WDS.
type Leaving struct {
	// Objects has the clusters that each object leaves. The lists are shared: do not change them.
	Objects map[objref.Ref][]string
	// Clusters are those of them whose labels could keep objects there, sorted.
	Clusters []string
}

// Live is what API servers have now of what a removal relies on.
type Live struct {
	// Policies are the names of those of which a version was not seen yet.
	Policies []string
	// Labels are those of the objects, Namespaces and clusters that exist.
	Labels match.Labels
	// Unserved are resources that are not served, so that their objects could not be read, and that
	// another policy could select.
	Unserved map[schema.GroupResource]bool
	// Unreadable are resources whose objects could not be read, and so may have got labels by which
	// a policy selects them.
	Unreadable map[schema.GroupResource]bool
	// Unread has clusters whose labels could not be read, by the names of their ITSes.
	Unread map[string][]string
}

// Unseen is what stays since something that it depends on was not seen yet.
type Unseen struct {
	Objects  map[objref.Ref]bool
	Clusters map[string]bool
	// Of lists what was not seen, sorted; empty if nothing stays.
	Of []string
}

// leaving returns what a change of the Bindings from stored to desired takes from clusters. What
// another policy that is able to write its Bindings selects for a cluster does not leave it: see
// HandOver.
func (s *State) leaving(stored, desired *controlv1alpha1.BindingSpec) Leaving {
	l := Leaving{Objects: map[objref.Ref][]string{}}
	if len(s.Labels.Objects) == 0 {
		return l
	}
	still, destinations := Refs(desired), clustersOf(desired)
	slices.Sort(destinations)
	all := clustersOf(stored)
	dropped := without(all, destinations)
	drops := map[string]bool{}
	if s.Policy.DeletionTimestamp == nil { // a policy that is being deleted selects no cluster again
		for _, cluster := range dropped {
			drops[cluster] = true
		}
	}
	decisive := map[string]bool{}
	// Objects that the same policies select leave the same clusters.
	known := map[string][]string{}
	for ref := range s.Labels.Objects {
		from, key := all, "object"
		if _, stays := still[ref]; stays {
			from, key = dropped, "cluster"
		}
		able := slices.DeleteFunc(slices.Clone(s.HandOver.Selecting[ref]), func(name string) bool {
			_, ok := s.HandOver.Others[name]
			return !ok
		})
		key += " " + strings.Join(able, " ")
		leaves, ok := known[key]
		if !ok {
			leaves = from
			for _, name := range able {
				leaves = without(leaves, s.HandOver.Others[name].Clusters)
			}
			known[key] = leaves
			for _, cluster := range leaves {
				if _, is := s.Labels.Clusters[cluster]; is && (len(able) > 0 || drops[cluster]) {
					decisive[cluster] = true
				}
			}
		}
		if len(leaves) > 0 {
			l.Objects[ref] = leaves
		}
	}
	l.Clusters = slices.Sorted(maps.Keys(decisive))
	return l
}

// without returns the clusters that are not in the sorted list.
func without(clusters, sorted []string) []string {
	return slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool {
		_, found := slices.BinarySearch(sorted, cluster)
		return found
	})
}

// Unseen compares what API servers have with the labels that the decision relied on.
func (l *Leaving) Unseen(seen match.Labels, live Live) Unseen {
	u := Unseen{Objects: map[objref.Ref]bool{}, Clusters: map[string]bool{}}
	of := map[string]bool{}
	for _, name := range live.Policies {
		of[fmt.Sprintf("BindingPolicy %q", name)] = true
	}
	unsure := map[string]bool{}
	for _, cluster := range l.Clusters {
		if differs(live.Labels.Clusters, seen.Clusters, cluster) {
			unsure[cluster] = true
			of[fmt.Sprintf("ManagedCluster %q", cluster)] = true
		}
	}
	for its, clusters := range live.Unread {
		of[fmt.Sprintf("ITS %q, which does not respond", its)] = true
		for _, cluster := range clusters {
			unsure[cluster] = true
		}
	}
	for ref, clusters := range l.Objects {
		stays := len(live.Policies) > 0
		if differs(live.Labels.Objects, seen.Objects, ref) {
			stays = true
			of[ref.String()] = true
		}
		if live.Unserved[ref.GroupResource()] {
			stays = true
			of[ref.GroupResource().String()+", which is not served"] = true
		}
		if live.Unreadable[ref.GroupResource()] {
			stays = true
			of[ref.GroupResource().String()+", which cannot be read"] = true
		}
		if ref.Namespace != "" && differs(live.Labels.Namespaces, seen.Namespaces, ref.Namespace) {
			stays = true
			of[fmt.Sprintf("Namespace %q", ref.Namespace)] = true
		}
		for _, cluster := range clusters {
			if stays || unsure[cluster] {
				u.Objects[ref], u.Clusters[cluster] = true, true
			}
		}
	}
	if len(u.Objects) > 0 {
		u.Of = slices.Sorted(maps.Keys(of))
	}
	return u
}

// differs reports whether something exists and has other labels than those that were seen.
func differs[K comparable](live, seen map[K]map[string]string, key K) bool {
	labels, exists := live[key]
	before, known := seen[key]
	return exists && (!known || !maps.Equal(labels, before))
}
