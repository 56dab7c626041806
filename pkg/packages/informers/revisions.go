package informers

import (
	"k8s.io/apimachinery/pkg/types"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// RevisionsOf returns the revisions of a package, in no order.
func (i *Informers) RevisionsOf(namespace string, p variant.Package) []*storev1alpha1.PackageRevision {
	return i.Revisions.By(revisionsByPackage, packageKey(namespace, p))
}

// RevisionsIn returns the revisions in a Repository, in no order.
func (i *Informers) RevisionsIn(namespace, repository string) []*storev1alpha1.PackageRevision {
	return i.Revisions.By(revisionsByRepository, namespace+"/"+repository)
}

// RevisionsOwnedBy returns the revisions that have an owner with this UID, in no order.
func (i *Informers) RevisionsOwnedBy(uid types.UID) []*storev1alpha1.PackageRevision {
	return i.Revisions.By(revisionsByOwner, string(uid))
}

// RevisionsFrom returns the revisions that were created from a revision, in no order.
func (i *Informers) RevisionsFrom(upstream *storev1alpha1.PackageRevision) []*storev1alpha1.PackageRevision {
	return i.Revisions.By(revisionsByUpstream, KeyOf(upstream).String())
}

// Origin returns the revision that a lock refers to, or nil if there is none. If there are several,
// for example because a git repository is registered twice, it returns the first by name.
func (i *Informers) Origin(namespace string, lock variant.Lock) *storev1alpha1.PackageRevision {
	var first *storev1alpha1.PackageRevision
	for _, r := range i.Revisions.By(revisionsByLock, lockKey(namespace, lock)) {
		if first == nil || r.Name < first.Name {
			first = r
		}
	}
	return first
}
