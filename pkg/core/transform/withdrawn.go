package transform

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Withdrawn returns what stands in a work for an object that is on its way out: its identity, marked, and nothing else.
func Withdrawn(ref objref.Ref, kind schema.GroupVersionKind) (Object, error) {
	metadata := map[string]any{
		"name":        ref.Name,
		"annotations": map[string]any{controlv1alpha1.AnnotationWithdrawn: "true"},
	}
	if ref.Namespace != "" {
		metadata["namespace"] = ref.Namespace
	}
	return Pipeline{}.Apply(ref, map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": metadata,
	})
}
