package packagewatch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/variant"
)

// Indexes of Variants.
const (
	variantsByUpstream   = "upstream"
	variantsByDownstream = "downstream"
	variantsByRepository = "downstreamRepository"
	variantsByController = "controller"
	variantsByInjected   = "injected"
	variantsByUID        = "uid"
)

func variantIndexers() cache.Indexers {
	return cache.Indexers{
		variantsByUpstream: index(func(pv *configv1alpha1.PackageVariant) []string {
			if up := pv.Spec.Upstream; up != nil {
				return []string{packageKey(pv.Namespace, variant.Package{Repository: up.Repo, Name: up.Package})}
			}
			return nil
		}),
		variantsByDownstream: index(func(pv *configv1alpha1.PackageVariant) []string {
			if down := pv.Spec.Downstream; down != nil {
				return []string{packageKey(pv.Namespace, variant.Package{Repository: down.Repo, Name: down.Package})}
			}
			return nil
		}),
		variantsByRepository: index(func(pv *configv1alpha1.PackageVariant) []string {
			if down := pv.Spec.Downstream; down != nil {
				return []string{pv.Namespace + "/" + down.Repo}
			}
			return nil
		}),
		variantsByController: index(func(pv *configv1alpha1.PackageVariant) []string {
			if owner := metav1.GetControllerOfNoCopy(pv); owner != nil {
				return []string{string(owner.UID)}
			}
			return nil
		}),
		variantsByInjected: index(func(pv *configv1alpha1.PackageVariant) []string {
			keys := make([]string, 0, len(pv.Status.Injected))
			for _, o := range pv.Status.Injected {
				keys = append(keys, objectKey(o.Group, o.Kind, o.Name))
			}
			return keys
		}),
		variantsByUID: index(func(pv *configv1alpha1.PackageVariant) []string { return []string{string(pv.UID)} }),
	}
}

// Variant returns a PackageVariant by its name, nil if there is none.
func (i *Informers) Variant(namespace, name string) *configv1alpha1.PackageVariant {
	return byName[configv1alpha1.PackageVariant](i.Variants, namespace, name)
}

// VariantExists tells whether there is a PackageVariant of that UID.
func (i *Informers) VariantExists(uid types.UID) bool {
	keys, err := i.Variants.GetIndexer().IndexKeys(variantsByUID, string(uid))
	return err == nil && len(keys) > 0
}

// VariantsFrom returns the PackageVariants that have a package as their upstream, in no order.
func (i *Informers) VariantsFrom(namespace string, upstream variant.Package) []*configv1alpha1.PackageVariant {
	return indexed[*configv1alpha1.PackageVariant](i.Variants, variantsByUpstream, packageKey(namespace, upstream))
}

// VariantsOf returns the PackageVariants that keep a package, or want to, in no order.
func (i *Informers) VariantsOf(namespace string, downstream variant.Package) []*configv1alpha1.PackageVariant {
	return indexed[*configv1alpha1.PackageVariant](i.Variants, variantsByDownstream, packageKey(namespace, downstream))
}

// VariantsIn returns the PackageVariants that keep a package in a Repository, or want to, in no order.
func (i *Informers) VariantsIn(namespace, repository string) []*configv1alpha1.PackageVariant {
	return indexed[*configv1alpha1.PackageVariant](i.Variants, variantsByRepository, namespace+"/"+repository)
}

// VariantsControlledBy returns the PackageVariants whose controller, a PackageVariantSet, has that UID, in no order.
func (i *Informers) VariantsControlledBy(uid types.UID) []*configv1alpha1.PackageVariant {
	return indexed[*configv1alpha1.PackageVariant](i.Variants, variantsByController, string(uid))
}

// VariantsInjecting returns the PackageVariants, of all namespaces, that look for an object of that kind, in any version, and name at the
// injection points of their packages, in no order.
func (i *Informers) VariantsInjecting(group, kind, name string) []*configv1alpha1.PackageVariant {
	return indexed[*configv1alpha1.PackageVariant](i.Variants, variantsByInjected, objectKey(group, kind, name))
}

func objectKey(group, kind, name string) string { return group + "/" + kind + "/" + name }
