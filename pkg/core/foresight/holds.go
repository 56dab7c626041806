package foresight

import (
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// HoldsOf returns what Transactions hold: what the Binding pkgv1.HoldsBinding says, which is nil if
// it does not exist. With an error, everything is held.
func HoldsOf(b *controlv1alpha1.Binding) (plan.Holds, error) {
	if b == nil {
		return plan.Holds{}, nil
	}
	text, has := b.Annotations[pkgv1.AnnotationHeldObjects]
	if !has {
		return plan.Holds{}, nil
	}
	return plan.ParseHolds(text)
}
