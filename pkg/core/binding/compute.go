// Package binding turns what a policy selects into the spec of its Binding. It is pure.
package binding

import (
	"cmp"
	"slices"
	"strings"

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
	// Unread tells of a resource that not all of its objects, or not all that decides about them, were read since the
	// start.
	Unread func(schema.GroupResource) bool
	// UnreadCluster tells of a cluster that nothing is known of it because not every inventory was read since the start.
	UnreadCluster func(name string) bool
	// Awaits and AwaitsCluster tell whether an object, or a cluster, that is not selected any more stays until another policy has
	// taken it over. Nil: none does.
	Awaits        func(objref.Ref) bool
	AwaitsCluster func(name string) bool
}

// Compute returns the spec that the Binding shall have, in the contract's order: objects by group, version, resource,
// namespace and name, clusters by name. The same input in any order gives the same bytes.
//
// Objects of an unread resource, and unread clusters, stay as they are stored: none leaves, and none comes, since how it
// is to be carried is not known either (invariants 1 and 3). The others follow the policy.
//
// The result shares the lists of status collectors with the input; change neither.
func Compute(in Input) controlv1alpha1.BindingSpec {
	stored := index(in.Stored)
	unread := map[schema.GroupResource]bool{}
	isUnread := func(ref objref.Ref) bool {
		gr := ref.GroupResource()
		answer, asked := unread[gr]
		if !asked {
			answer = in.Unread(gr)
			unread[gr] = answer
		}
		return answer
	}

	entries := make([]entry, 0, len(in.Selected.Matches))
	for _, m := range in.Selected.Matches {
		if isUnread(m.Ref) {
			continue
		}
		e := entry{ref: m.Ref, version: m.Version, resourceVersion: m.ResourceVersion, modulation: *m.Modulation}
		if before, ok := stored[m.Ref]; ok && !m.Exact && before.resourceVersion != "" {
			// A later version that was found at the start may be of a status write. To follow it would write every Binding
			// at every start; an edit that was made meanwhile is delivered all the same, and shows with the next one.
			e.resourceVersion = before.resourceVersion
		}
		entries = append(entries, e)
	}
	leaving := in.leaving(stored)
	for ref, e := range stored {
		if isUnread(ref) || leaving(ref) && in.Awaits(ref) {
			entries = append(entries, e)
		}
	}
	sortEntries(entries)

	clusters := slices.Clone(in.Selected.Clusters)
	if in.Stored != nil {
		for _, destination := range in.Stored.Destinations {
			_, selected := slices.BinarySearch(in.Selected.Clusters, destination.ClusterID)
			if in.UnreadCluster(destination.ClusterID) || !selected && in.AwaitsCluster != nil && in.AwaitsCluster(destination.ClusterID) {
				clusters = append(clusters, destination.ClusterID)
			}
		}
	}
	slices.Sort(clusters)
	return assemble(entries, slices.Compact(clusters))
}

// leaving returns what tells whether a stored object is not selected any more; nothing is said to be if that does not matter.
func (in *Input) leaving(stored map[objref.Ref]entry) func(objref.Ref) bool {
	still := 0
	for i := range in.Selected.Matches {
		if _, ok := stored[in.Selected.Matches[i].Ref]; ok {
			still++
		}
	}
	if still == len(stored) || in.Awaits == nil {
		return func(objref.Ref) bool { return false }
	}
	selected := make(map[objref.Ref]struct{}, len(in.Selected.Matches))
	for i := range in.Selected.Matches {
		selected[in.Selected.Matches[i].Ref] = struct{}{}
	}
	return func(ref objref.Ref) bool {
		_, is := selected[ref]
		return !is
	}
}

// Refs returns the objects that a Binding lists; nil for no Binding.
func Refs(spec *controlv1alpha1.BindingSpec) map[objref.Ref]struct{} {
	stored := index(spec)
	refs := make(map[objref.Ref]struct{}, len(stored))
	for ref := range stored {
		refs[ref] = struct{}{}
	}
	return refs
}

// sortEntries sorts in the contract's order.
func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.ref.Group, b.ref.Group), strings.Compare(a.version, b.version), objref.Compare(a.ref, b.ref))
	})
}

// entry is an object of a Binding, in whatever scope.
type entry struct {
	ref             objref.Ref
	version         string
	resourceVersion string
	modulation      controlv1alpha1.DownsyncModulation
}

func index(spec *controlv1alpha1.BindingSpec) map[objref.Ref]entry {
	if spec == nil {
		return nil
	}
	entries := make(map[objref.Ref]entry, len(spec.Workload.ClusterScope)+len(spec.Workload.NamespaceScope))
	for i := range spec.Workload.ClusterScope {
		c := &spec.Workload.ClusterScope[i]
		ref := clusterRef(c)
		entries[ref] = entry{ref, c.Version, c.ResourceVersion, c.DownsyncModulation}
	}
	for i := range spec.Workload.NamespaceScope {
		c := &spec.Workload.NamespaceScope[i]
		ref := namespaceRef(c)
		entries[ref] = entry{ref, c.Version, c.ResourceVersion, c.DownsyncModulation}
	}
	return entries
}

func assemble(entries []entry, clusters []string) controlv1alpha1.BindingSpec {
	var spec controlv1alpha1.BindingSpec
	for _, e := range entries {
		if e.ref.Namespace == "" {
			spec.Workload.ClusterScope = append(spec.Workload.ClusterScope, controlv1alpha1.ClusterScopeDownsyncClause{
				ClusterScopeDownsyncObject: controlv1alpha1.ClusterScopeDownsyncObject{
					Group: e.ref.Group, Version: e.version, Resource: e.ref.Resource,
					Name: e.ref.Name, ResourceVersion: e.resourceVersion,
				},
				DownsyncModulation: e.modulation,
			})
			continue
		}
		spec.Workload.NamespaceScope = append(spec.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
				Group: e.ref.Group, Version: e.version, Resource: e.ref.Resource,
				Namespace: e.ref.Namespace, Name: e.ref.Name, ResourceVersion: e.resourceVersion,
			},
			DownsyncModulation: e.modulation,
		})
	}
	for _, name := range clusters {
		spec.Destinations = append(spec.Destinations, controlv1alpha1.Destination{ClusterID: name})
	}
	return spec
}
