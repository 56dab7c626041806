package variantsets

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// gather returns the input of the plan of a set. Its cost is linear in the Repositories and
// PackageVariants of the namespace.
func (c *Controller) gather(set *configv1alpha2.PackageVariantSet, s *state) *variant.SetInput {
	in := &variant.SetInput{
		Set: set, Compiled: s.compiled, Invalid: s.invalid, Allowed: s.begun, Refused: s.refused, Cache: &s.rendered,
		Objects: func(apiVersion, kind string) ([]variant.Metadata, error) {
			version, err := schema.ParseGroupVersion(apiVersion)
			if err != nil {
				return nil, err
			}
			return c.kinds.List(set.Namespace, schema.GroupKind{Group: version.Group, Kind: kind})
		},
		HasRevisions: func(pkg variant.Package) bool { return len(c.Watch.RevisionsOf(set.Namespace, pkg)) > 0 },
	}
	in.Variants = c.Watch.Variants.In(set.Namespace) // of an invalid set, they are counted
	if len(in.Invalid) > 0 {
		return in
	}
	up := set.Spec.Upstream
	found, err := variant.FindUpstream(up, c.Watch.RevisionsOf(set.Namespace, variant.Package{Repository: up.Repo, Name: up.Package}))
	if err != nil {
		in.UpstreamErr = err
	} else {
		in.Upstream = variant.MetadataOf(found)
	}
	repositories := c.Watch.Repositories.In(set.Namespace)
	in.Repositories = make([]variant.Repository, 0, len(repositories))
	for _, repository := range repositories {
		in.Repositories = append(in.Repositories, variant.Repository{Metadata: *variant.MetadataOf(repository), Detached: c.kinds.Left(repository)})
	}
	return in
}
