package variants

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: most texts of PackageVariants are those of pkg/core/packages/variant. These follow the
// action or the injector that fails.
func TestTexts(t *testing.T) {
	k := &Kinds{}
	forbidden := apierrors.NewForbidden(porchv1alpha1.ResourcePackageRevisions.GroupResource(), "edge1.web.v1", errors.New("not allowed"))
	golden.Texts(t,
		golden.Text{Heading: "Approval is forbidden", Text: approvalForbidden(forbidden).Error()},
		golden.Text{Heading: "A Secret is to be injected", Text: k.refusal(secret, dynamicinformer.Resource{Namespaced: true}).Error()},
		golden.Text{
			Heading: "An object of a cluster-scoped kind is to be injected",
			Text:    k.refusal(schema.GroupKind{Group: "example.com", Kind: "ClusterSettings"}, dynamicinformer.Resource{}).Error(),
		},
	)
}
