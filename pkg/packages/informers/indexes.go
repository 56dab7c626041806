package informers

import (
	"fmt"

	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

const (
	revisionsByPackage    = "package"
	revisionsByRepository = "inRepository"
	revisionsByOwner      = "owner"
	revisionsByLock       = "lock"
	revisionsByUpstream   = "upstream"
)

func revisionIndexers() cache.Indexers {
	return cache.Indexers{
		revisionsByPackage: Index(func(r *storev1alpha1.PackageRevision) []string {
			return []string{packageKey(r.Namespace, PackageOf(r))}
		}),
		revisionsByRepository: Index(func(r *storev1alpha1.PackageRevision) []string {
			return []string{r.Namespace + "/" + r.Spec.RepositoryName}
		}),
		revisionsByOwner: Index(func(r *storev1alpha1.PackageRevision) []string {
			var keys []string
			for i := range r.Served.OwnerReferences {
				keys = append(keys, string(r.Served.OwnerReferences[i].UID))
			}
			return keys
		}),
		revisionsByLock: Index(func(r *storev1alpha1.PackageRevision) []string {
			var keys []string
			for _, lock := range variant.Locks(r) {
				keys = append(keys, lockKey(r.Namespace, lock))
			}
			return keys
		}),
		revisionsByUpstream: Index(func(r *storev1alpha1.PackageRevision) []string {
			if r.Content.Upstream == "" {
				return nil
			}
			return []string{r.Namespace + "/" + r.Content.Upstream}
		}),
	}
}

// PackageOf returns the package of a revision.
func PackageOf(r *storev1alpha1.PackageRevision) variant.Package {
	return variant.Package{Repository: r.Spec.RepositoryName, Name: r.Spec.PackageName}
}

func packageKey(namespace string, p variant.Package) string { return namespace + "/" + p.String() }

func lockKey(namespace string, lock variant.Lock) string {
	return fmt.Sprintf("%s/%q", namespace, []string{lock.Repository, lock.Directory, lock.Ref, lock.Commit})
}

// Indexes of Variants.
const (
	variantsByUpstream   = "upstream"
	variantsByDownstream = "downstream"
	variantsByRepository = "downstreamRepository"
	variantsByInjected   = "injected"
	variantsByUID        = "uid"
)

func variantIndexers() cache.Indexers {
	return cache.Indexers{
		variantsByUpstream: Index(func(pv *configv1alpha1.PackageVariant) []string {
			if up := pv.Spec.Upstream; up != nil {
				return []string{packageKey(pv.Namespace, variant.Package{Repository: up.Repo, Name: up.Package})}
			}
			return nil
		}),
		variantsByDownstream: Index(func(pv *configv1alpha1.PackageVariant) []string {
			if down := pv.Spec.Downstream; down != nil {
				return []string{packageKey(pv.Namespace, variant.Package{Repository: down.Repo, Name: down.Package})}
			}
			return nil
		}),
		variantsByRepository: Index(func(pv *configv1alpha1.PackageVariant) []string {
			if down := pv.Spec.Downstream; down != nil {
				return []string{pv.Namespace + "/" + down.Repo}
			}
			return nil
		}),
		variantsByInjected: Index(func(pv *configv1alpha1.PackageVariant) []string {
			keys := make([]string, 0, len(pv.Status.Injected))
			for _, o := range pv.Status.Injected {
				keys = append(keys, objectKey(o.Group, o.Kind, o.Name))
			}
			return keys
		}),
		variantsByUID: Index(func(pv *configv1alpha1.PackageVariant) []string { return []string{string(pv.UID)} }),
	}
}

func objectKey(group, kind, name string) string { return group + "/" + kind + "/" + name }
