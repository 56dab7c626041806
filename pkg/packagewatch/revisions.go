package packagewatch

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/variant"
)

// Indexes of Revisions.
const (
	revisionsByPackage    = "package"
	revisionsByRepository = "inRepository"
	revisionsByOwner      = "owner"
	revisionsByLock       = "lock"
)

func revisionIndexers() cache.Indexers {
	return cache.Indexers{
		revisionsByPackage: index(func(r *storev1alpha1.PackageRevision) []string {
			return []string{packageKey(r.Namespace, PackageOf(r))}
		}),
		revisionsByRepository: index(func(r *storev1alpha1.PackageRevision) []string {
			return []string{r.Namespace + "/" + r.Spec.RepositoryName}
		}),
		revisionsByOwner: index(func(r *storev1alpha1.PackageRevision) []string {
			var keys []string
			for i := range r.Served.OwnerReferences {
				keys = append(keys, string(r.Served.OwnerReferences[i].UID))
			}
			return keys
		}),
		revisionsByLock: index(func(r *storev1alpha1.PackageRevision) []string {
			var keys []string
			for _, lock := range variant.Locks(r) {
				keys = append(keys, lockKey(r.Namespace, lock))
			}
			return keys
		}),
	}
}

// PackageOf is the package that a revision is of.
func PackageOf(r *storev1alpha1.PackageRevision) variant.Package {
	return variant.Package{Repository: r.Spec.RepositoryName, Name: r.Spec.PackageName}
}

// RevisionsOf returns the revisions of a package, in no order.
func (i *Informers) RevisionsOf(namespace string, p variant.Package) []*storev1alpha1.PackageRevision {
	return indexed[*storev1alpha1.PackageRevision](i.Revisions, revisionsByPackage, packageKey(namespace, p))
}

// RevisionsIn returns the revisions in a Repository, in no order.
func (i *Informers) RevisionsIn(namespace, repository string) []*storev1alpha1.PackageRevision {
	return indexed[*storev1alpha1.PackageRevision](i.Revisions, revisionsByRepository, namespace+"/"+repository)
}

// RevisionsOwnedBy returns the revisions that have an owner of that UID, in no order.
func (i *Informers) RevisionsOwnedBy(uid types.UID) []*storev1alpha1.PackageRevision {
	return indexed[*storev1alpha1.PackageRevision](i.Revisions, revisionsByOwner, string(uid))
}

// Revision returns a revision by its name, nil if there is none.
func (i *Informers) Revision(namespace, name string) *storev1alpha1.PackageRevision {
	return byName[storev1alpha1.PackageRevision](i.Revisions, namespace, name)
}

// Origin returns the revision that a lock is about, nil if it is not there. If there are several, as when one repository is registered
// twice, it is the first by name.
func (i *Informers) Origin(namespace string, lock variant.Lock) *storev1alpha1.PackageRevision {
	var first *storev1alpha1.PackageRevision
	for _, r := range indexed[*storev1alpha1.PackageRevision](i.Revisions, revisionsByLock, lockKey(namespace, lock)) {
		if first == nil || r.Name < first.Name {
			first = r
		}
	}
	return first
}

func packageKey(namespace string, p variant.Package) string { return namespace + "/" + p.String() }

func lockKey(namespace string, lock variant.Lock) string {
	return fmt.Sprintf("%s/%q", namespace, []string{lock.Repository, lock.Directory, lock.Ref, lock.Commit})
}
