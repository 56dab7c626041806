package bindings

import (
	"fmt"
	"testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	golden.Texts(t, golden.Text{
		Heading: "Event " + controlv1alpha1.ReasonNameTaken + " on a Binding",
		Text:    fmt.Sprintf(nameTaken, binding.Package{Namespace: "default", Repository: "edge1", Name: "web"}),
	})
}
