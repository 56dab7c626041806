package variantsets

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: most texts of PackageVariantSets are those of pkg/core/packages/variant.
func TestTexts(t *testing.T) {
	refused := apierrors.NewForbidden(configv1alpha1.PackageVariants.GroupResource(), "shop-edge1-web", errors.New("exceeded quota"))
	golden.Texts(t,
		golden.Text{Heading: "A PackageVariant is refused", Text: refusal("shop-edge1-web", refused)},
		golden.Text{Heading: "A PackageVariant cannot be written", Text: refusal("shop-edge1-web", apierrors.NewInternalError(errors.New("failed calling webhook")))},
		golden.Text{Heading: "A kind may not be selected", Text: notAllowed(schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}).Error()},
		golden.Text{Heading: "Objects are not synced", Text: ErrUnread.Error()},
		golden.Text{Heading: "Clusters are selected without an ITS", Text: (&Kinds{}).clustersReadable().Error()},
	)
}
