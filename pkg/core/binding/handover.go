package binding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// One change of a label, of an object or of a cluster, may move an object from one policy to
// another. If the Binding that loses it were written before the one that gains it, the cluster
// would delete the object and re-create it. The rule:
//
// An object stays listed for a cluster, although the policy no longer selects it there, as long as
// other policies that are able to write their Bindings select it there, and none of them lists it
// there.
//
// The rule has no time limit, because the object is wanted there. Additions never wait, so no two
// policies wait for each other.

// Other is a policy that is able to write its Bindings: its spec is valid, it is not being deleted,
// and its Binding's name is not taken.
type Other struct {
	// Clusters that the policy selects, sorted.
	Clusters []string
	// Listed are the specs of its stored Bindings, without those that are being deleted. It must
	// not be older than the selection: see HandOver.
	Listed []*controlv1alpha1.BindingSpec
}

// HandOver has the other policies that select what the Bindings of a policy list.
//
// What Others list must be read after Selecting was: a policy that listed an object earlier may
// have removed it meanwhile. A policy whose Bindings are perhaps about to change, or not known
// exactly, is given as one that lists nothing.
type HandOver struct {
	// Selecting has the policies that select an object. Those that are not in Others do not count.
	Selecting map[objref.Ref][]string
	Others    map[string]Other
}

// Retained is what stays in the Bindings of a policy until other policies list it, or until
// something is seen.
type Retained struct {
	// Objects has for each object that stays the first of the policies that it waits for, "" if it
	// is Unseen.
	Objects map[objref.Ref]string
	// Clusters are those where an object stays.
	Clusters map[string]bool
}

// Retained returns what stays of the stored entries, although it is not in selected. Its cost is
// that of the objects that HandOver names, plus that of the clusters for each set of Bindings that
// lists some of them.
func (h *HandOver) Retained(selected match.Snapshot, stored *controlv1alpha1.BindingSpec) Retained {
	r := Retained{Objects: map[objref.Ref]string{}, Clusters: map[string]bool{}}
	if stored == nil || len(h.Selecting) == 0 || len(h.Others) == 0 {
		return r
	}
	still := make(map[objref.Ref]bool, len(selected.Matches))
	for i := range selected.Matches {
		still[selected.Matches[i].Ref] = true
	}
	all := clustersOf(stored)
	leaving := slices.DeleteFunc(slices.Clone(all), func(cluster string) bool {
		_, is := slices.BinarySearch(selected.Clusters, cluster)
		return is
	})
	listings := map[string][]listing{}
	for name, other := range h.Others {
		listings[name] = listingsOf(other)
	}
	// Objects that the same Bindings list stay at the same clusters.
	known := map[string][]string{}
	for ref := range Refs(stored) {
		from, kind := all, "object"
		if still[ref] {
			from, kind = leaving, "cluster"
		}
		var able []string
		key := strings.Builder{}
		key.WriteString(kind)
		for _, name := range h.Selecting[ref] {
			if _, ok := h.Others[name]; !ok {
				continue
			}
			able = append(able, name)
			fmt.Fprintf(&key, " %s", name)
			for i, l := range listings[name] {
				if l.objects[ref] {
					fmt.Fprintf(&key, ",%d", i)
				}
			}
		}
		if len(able) == 0 || len(from) == 0 {
			continue
		}
		clusters, ok := known[key.String()]
		if !ok {
			clusters = h.missing(ref, from, able, listings)
			known[key.String()] = clusters
			for _, cluster := range clusters {
				r.Clusters[cluster] = true
			}
		}
		if len(clusters) > 0 {
			r.Objects[ref] = h.firstSelecting(clusters[0], able)
		}
	}
	return r
}

func (r *Retained) add(u *Unseen) {
	for ref := range u.Objects {
		if _, waits := r.Objects[ref]; !waits {
			r.Objects[ref] = ""
		}
	}
	maps.Copy(r.Clusters, u.Clusters)
}

// Of returns the spec that lists nothing but what stays of the stored one: that of a policy that is
// being deleted.
func (r *Retained) Of(stored *controlv1alpha1.BindingSpec) controlv1alpha1.BindingSpec {
	var entries []match.Match
	for e := range match.Entries(stored) {
		if _, retained := r.Objects[e.Ref]; retained {
			entries = append(entries, e)
		}
	}
	return assemble(entries, slices.Collect(maps.Keys(r.Clusters)))
}

// missing returns the clusters at which some of the policies select the object, and none of them
// lists it.
func (h *HandOver) missing(ref objref.Ref, clusters, policies []string, listings map[string][]listing) []string {
	var missing []string
	for _, cluster := range clusters {
		selected, listed := false, false
		for _, name := range policies {
			if _, selects := slices.BinarySearch(h.Others[name].Clusters, cluster); !selects {
				continue
			}
			selected = true
			listed = listed || slices.ContainsFunc(listings[name], func(l listing) bool { return l.objects[ref] && l.clusters[cluster] })
		}
		if selected && !listed {
			missing = append(missing, cluster)
		}
	}
	return missing
}

// firstSelecting returns the first of the policies that selects the cluster.
func (h *HandOver) firstSelecting(cluster string, policies []string) string {
	for _, name := range policies {
		if _, selects := slices.BinarySearch(h.Others[name].Clusters, cluster); selects {
			return name
		}
	}
	return ""
}

// listing is what one Binding lists.
type listing struct {
	objects  map[objref.Ref]bool
	clusters map[string]bool
}

func listingsOf(other Other) []listing {
	listings := make([]listing, 0, len(other.Listed))
	for _, spec := range other.Listed {
		l := listing{objects: map[objref.Ref]bool{}, clusters: map[string]bool{}}
		for e := range match.Entries(spec) {
			l.objects[e.Ref] = true
		}
		for _, cluster := range clustersOf(spec) {
			l.clusters[cluster] = true
		}
		listings = append(listings, l)
	}
	return listings
}

// ListedIn returns what a spec lists.
func ListedIn(spec *controlv1alpha1.BindingSpec) match.Listed {
	listed := match.Listed{Clusters: clustersOf(spec)}
	for e := range match.Entries(spec) {
		listed.Objects = append(listed.Objects, e.Ref)
	}
	return listed
}
