// Package binding turns what a policy selects into the spec of its Binding. It is pure.
package binding

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Input is all that the spec of a Binding follows from.
type Input struct {
	// Selected is what the policy selects, as far as it was read.
	Selected match.Snapshot
	// Stored is the spec of the Binding as it is; nil if there is none.
	Stored *controlv1alpha1.BindingSpec
	// Unread is what nothing may be concluded about.
	Unread Unread
	// Retained stays although it is not selected.
	Retained Retained
}

// Unread is what was not read since the start. It must have been found out before the objects and
// clusters were selected: what is read in between may not have been selected completely.
type Unread struct {
	// Read are the resources of which all objects, and all that decides about them, were read. All
	// others are unread.
	Read map[schema.GroupResource]bool
	// Clusters are the stored destinations of which nothing is known, because not every ITS was
	// read.
	Clusters map[string]bool
}

// Compute returns the spec that the Binding shall have, in the contract's order: objects by group,
// version, resource, namespace and name, clusters by name. The same input in any order gives the
// same bytes.
//
// Objects of an unread resource, and unread clusters, stay as they are stored: none leaves, and
// none comes, since how it is to be carried is not known either (invariants 1 and 3). The others
// follow the policy.
//
// The result shares the lists of status collectors with the input; change neither.
func Compute(in Input) controlv1alpha1.BindingSpec {
	stored := index(in.Stored)
	isUnread := func(ref objref.Ref) bool { return !in.Unread.Read[ref.GroupResource()] }

	entries := make([]match.Match, 0, len(in.Selected.Matches))
	for _, e := range in.Selected.Matches {
		if isUnread(e.Ref) {
			continue
		}
		if before, ok := stored[e.Ref]; ok && !e.Exact && before.ResourceVersion != "" {
			// A later version that was found at the start may be of a status write. To follow it
			// would write every Binding at every start; an edit that was made meanwhile is
			// delivered all the same, and shows with the next one.
			e.ResourceVersion = before.ResourceVersion
		}
		entries = append(entries, e)
	}
	selected := map[objref.Ref]bool{}
	if len(in.Retained.Objects) > 0 {
		for i := range entries {
			selected[entries[i].Ref] = true
		}
	}
	for ref, e := range stored {
		if _, retained := in.Retained.Objects[ref]; isUnread(ref) || retained && !selected[ref] {
			entries = append(entries, e)
		}
	}

	clusters := slices.Clone(in.Selected.Clusters)
	for _, cluster := range clustersOf(in.Stored) {
		if in.Unread.Clusters[cluster] || in.Retained.Clusters[cluster] {
			clusters = append(clusters, cluster)
		}
	}
	return assemble(entries, clusters)
}

// Refs returns the objects that a Binding lists; nothing for no Binding.
func Refs(spec *controlv1alpha1.BindingSpec) map[objref.Ref]struct{} {
	refs := map[objref.Ref]struct{}{}
	for e := range match.Entries(spec) {
		refs[e.Ref] = struct{}{}
	}
	return refs
}

// clustersOf returns the destinations of a Binding; none for no Binding.
func clustersOf(spec *controlv1alpha1.BindingSpec) []string {
	if spec == nil {
		return nil
	}
	clusters := make([]string, len(spec.Destinations))
	for i := range spec.Destinations {
		clusters[i] = spec.Destinations[i].ClusterID
	}
	return clusters
}

func index(spec *controlv1alpha1.BindingSpec) map[objref.Ref]match.Match {
	entries := map[objref.Ref]match.Match{}
	for e := range match.Entries(spec) {
		entries[e.Ref] = e
	}
	return entries
}

// assemble returns the spec that lists the entries and clusters in the contract's order. It sorts
// them.
func assemble(entries []match.Match, clusters []string) controlv1alpha1.BindingSpec {
	slices.SortFunc(entries, match.Compare)
	var spec controlv1alpha1.BindingSpec
	for _, e := range entries {
		if e.Ref.Namespace == "" {
			spec.Workload.ClusterScope = append(spec.Workload.ClusterScope, controlv1alpha1.ClusterScopeDownsyncClause{
				ClusterScopeDownsyncObject: controlv1alpha1.ClusterScopeDownsyncObject{
					Group: e.Ref.Group, Version: e.Version, Resource: e.Ref.Resource,
					Name: e.Ref.Name, ResourceVersion: e.ResourceVersion,
				},
				DownsyncModulation: *e.Modulation,
			})
			continue
		}
		spec.Workload.NamespaceScope = append(spec.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
				Group: e.Ref.Group, Version: e.Version, Resource: e.Ref.Resource,
				Namespace: e.Ref.Namespace, Name: e.Ref.Name, ResourceVersion: e.ResourceVersion,
			},
			DownsyncModulation: *e.Modulation,
		})
	}
	slices.Sort(clusters)
	for _, name := range slices.Compact(clusters) {
		spec.Destinations = append(spec.Destinations, controlv1alpha1.Destination{ClusterID: name})
	}
	return spec
}
