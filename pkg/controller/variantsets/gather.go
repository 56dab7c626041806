package variantsets

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/variant"
)

// gather puts together all that a set is planned from. It costs as much as there are Repositories and PackageVariants in the namespace.
func (c *Controller) gather(set *configv1alpha2.PackageVariantSet, s *state) *variant.SetInput {
	in := &variant.SetInput{
		Set: set, Compiled: s.compiled, Invalid: s.invalid, Begun: s.begun, Refused: s.refused, Rendered: &s.rendered,
		Objects: func(apiVersion, kind string) ([]variant.Metadata, error) {
			version, err := schema.ParseGroupVersion(apiVersion)
			if err != nil {
				return nil, err
			}
			return c.config.Objects.List(set.Namespace, schema.GroupKind{Group: version.Group, Kind: kind})
		},
	}
	if len(in.Invalid) > 0 {
		in.Variants = ofNamespace[configv1alpha1.PackageVariant](c.config.Watch.Variants, set.Namespace) // they are counted
		return in
	}
	up := set.Spec.Upstream
	found, err := variant.FindUpstream(up, c.config.Watch.RevisionsOf(set.Namespace, variant.Package{Repository: up.Repo, Name: up.Package}))
	if err != nil {
		in.UpstreamErr = err
	} else {
		upstream := metadataOf(&found.ObjectMeta)
		in.Upstream = &upstream
	}
	in.Variants = ofNamespace[configv1alpha1.PackageVariant](c.config.Watch.Variants, set.Namespace)
	repositories := ofNamespace[configv1alpha1.Repository](c.config.Watch.Repositories, set.Namespace)
	in.Repositories = make([]variant.Repository, 0, len(repositories))
	for _, repository := range repositories {
		in.Repositories = append(in.Repositories, variant.Repository{Metadata: metadataOf(&repository.ObjectMeta), Detached: c.config.Objects.Left(repository)})
	}
	return in
}

func metadataOf(m *metav1.ObjectMeta) variant.Metadata {
	return variant.Metadata{Name: m.Name, Namespace: m.Namespace, Labels: m.Labels, Annotations: m.Annotations}
}

// ofNamespace returns what an informer has of a namespace, in no order.
func ofNamespace[T any](informer cache.SharedIndexInformer, namespace string) []*T {
	found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	all := make([]*T, 0, len(found))
	for _, obj := range found {
		if typed, ok := obj.(*T); ok {
			all = append(all, typed)
		}
	}
	return all
}
