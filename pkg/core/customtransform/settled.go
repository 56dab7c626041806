package customtransform

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// Settled returns the instructions of these CustomTransforms for each GroupResource, as a transport
// that starts now uses them. The function is safe for concurrent use.
func Settled(transforms []*controlv1alpha1.CustomTransform) func(schema.GroupResource) *Instructions {
	about := map[schema.GroupResource][]*controlv1alpha1.CustomTransform{}
	for _, ct := range transforms {
		gr := GroupResource(&ct.Spec)
		about[gr] = append(about[gr], ct)
	}
	collection := NewCollection(func(gr schema.GroupResource) []*controlv1alpha1.CustomTransform { return about[gr] })
	return func(gr schema.GroupResource) *Instructions {
		instructions, _ := collection.Changes("", gr)
		return instructions
	}
}
