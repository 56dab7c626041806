package informers

import (
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// VariantExists reports whether there is a PackageVariant with this UID.
func (i *Informers) VariantExists(uid types.UID) bool {
	keys, err := i.Variants.GetIndexer().IndexKeys(variantsByUID, string(uid))
	return err == nil && len(keys) > 0
}

// VariantsFrom returns the PackageVariants that have a package as their upstream, in no order.
func (i *Informers) VariantsFrom(namespace string, upstream variant.Package) []*configv1alpha1.PackageVariant {
	return i.Variants.By(variantsByUpstream, packageKey(namespace, upstream))
}

// VariantsOf returns the PackageVariants whose downstream is a package, in no order.
func (i *Informers) VariantsOf(namespace string, downstream variant.Package) []*configv1alpha1.PackageVariant {
	return i.Variants.By(variantsByDownstream, packageKey(namespace, downstream))
}

// VariantsIn returns the PackageVariants whose downstream is in a Repository, in no order.
func (i *Informers) VariantsIn(namespace, repository string) []*configv1alpha1.PackageVariant {
	return i.Variants.By(variantsByRepository, namespace+"/"+repository)
}

// VariantsInjecting returns the PackageVariants of all namespaces that inject an object of this
// kind, in any version, and of this name, in no order.
func (i *Informers) VariantsInjecting(group, kind, name string) []*configv1alpha1.PackageVariant {
	return i.Variants.By(variantsByInjected, objectKey(group, kind, name))
}
