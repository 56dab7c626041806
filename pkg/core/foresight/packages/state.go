package packages

import (
	"errors"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// State is the state of the packages of a namespace at one moment. What is in it must not change: a
// change is made to a Clone.
type State struct {
	Namespace string
	// Sets, Variants, Repositories and Revisions are by name.
	Sets         map[string]*configv1alpha2.PackageVariantSet
	Variants     map[string]*configv1alpha1.PackageVariant
	Repositories map[string]*configv1alpha1.Repository
	Revisions    map[string]*storev1alpha1.PackageRevision
	// World has the clusters, and the metadata of the objects, that sets may select.
	World *forecast.World
	// Kinds are those that the WDS serves.
	Kinds workload.Kinds
}

// Clone returns a State that can be changed: its maps are copies, what is in them is shared.
func (s *State) Clone() *State {
	c := *s
	c.Sets, c.Variants = maps.Clone(s.Sets), maps.Clone(s.Variants)
	c.Repositories, c.Revisions = maps.Clone(s.Repositories), maps.Clone(s.Revisions)
	return &c
}

// managedCluster is the kind whose objects are those of the ITSes.
var managedCluster = schema.GroupKind{Group: "cluster.open-cluster-management.io", Kind: "ManagedCluster"}

// objects implements variant.Objects.
func (s *State) objects(apiVersion, kind string) ([]variant.Metadata, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	if gvk.GroupKind() == managedCluster {
		return s.clusters()
	}
	served, known, err := s.Kinds(gvk)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, variant.ErrNotServed
	}
	gr := schema.GroupResource{Group: gvk.Group, Resource: served.Name}
	switch {
	case match.NeverResource(gr):
		return nil, errors.New("objects of this kind are not read for a plan")
	case s.World.Unread[gr]:
		return nil, errors.New("its objects cannot be listed")
	}
	var found []variant.Metadata
	for ref, o := range s.World.Objects {
		if ref.GroupResource() == gr && (!served.Namespaced || ref.Namespace == s.Namespace) {
			found = append(found, *variant.MetadataOf(o.Meta))
		}
	}
	return found, nil
}

func (s *State) clusters() ([]variant.Metadata, error) {
	if s.World.ClustersUnread {
		return nil, errors.New("not all clusters are known")
	}
	var found []variant.Metadata
	for name, c := range s.World.Clusters {
		if c.State != inventory.Accepted {
			continue
		}
		m := variant.Metadata{Name: name, Labels: c.Labels}
		if c.Sources != nil {
			m.Annotations = c.Sources.Annotations
		}
		found = append(found, m)
	}
	return found, nil
}

// index finds revisions.
type index struct {
	byPackage map[variant.Package][]*storev1alpha1.PackageRevision
	byLock    map[variant.Lock]*storev1alpha1.PackageRevision
	byOwner   map[types.UID][]*storev1alpha1.PackageRevision
}

func (s *State) index() *index {
	i := &index{
		byPackage: map[variant.Package][]*storev1alpha1.PackageRevision{}, byLock: map[variant.Lock]*storev1alpha1.PackageRevision{},
		byOwner: map[types.UID][]*storev1alpha1.PackageRevision{},
	}
	for _, name := range slices.Sorted(maps.Keys(s.Revisions)) {
		r := s.Revisions[name]
		pkg := variant.Package{Repository: r.Spec.RepositoryName, Name: r.Spec.PackageName}
		i.byPackage[pkg] = append(i.byPackage[pkg], r)
		for _, owner := range r.Served.OwnerReferences {
			i.byOwner[owner.UID] = append(i.byOwner[owner.UID], r)
		}
		for _, lock := range variant.Locks(r) {
			if i.byLock[lock] == nil { // the first by name
				i.byLock[lock] = r
			}
		}
	}
	return i
}

// ownedBy returns the revisions that a PackageVariant owns.
func (i *index) ownedBy(pv *configv1alpha1.PackageVariant) []*storev1alpha1.PackageRevision {
	var owned []*storev1alpha1.PackageRevision
	for _, r := range i.byOwner[pv.UID] {
		if !slices.Contains(owned, r) {
			owned = append(owned, r)
		}
	}
	return owned
}
