package destinations

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// deliverFunc returns what the transport delivers of an object, which it changes and owns from
// then on.
type deliverFunc func(objref.Ref, *unstructured.Unstructured) *destination.Object

// delivery returns what the transport delivers of objects: the CustomTransforms are used as the
// transport uses them after a restart. It is safe for concurrent use.
func (d *Destinations) delivery(ctx context.Context) (deliverFunc, error) {
	list, err := d.control.CustomTransforms().List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list CustomTransforms: %w", err)
	}
	var transforms []*controlv1alpha1.CustomTransform
	if err == nil {
		for i := range list.Items {
			transforms = append(transforms, &list.Items[i])
		}
	}
	removal := customtransform.Settled(transforms)
	return func(ref objref.Ref, o *unstructured.Unstructured) *destination.Object {
		return destination.Deliver(ref, o, removal(ref.GroupResource()))
	}, nil
}

// add adds a change.
func (g *gathered) add(c *destination.Change) {
	g.input.Changes = append(g.input.Changes, *c)
	g.varies = g.varies || c.Had != nil && c.Had.Varies() || c.Gets != nil && c.Gets.Varies()
}
