package feedback

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// hold is what the annotation of a Binding about holds holds.
type hold struct {
	objects []string // sorted
	invalid bool
}

// holdOf returns what a Placement holds, nil if it has no annotation about it.
func holdOf(p *placement.Placement, held []objref.Ref) *hold {
	if !p.Annotations.HasHold() {
		return nil
	}
	h := &hold{invalid: p.Annotations.HoldInvalid}
	for _, ref := range held {
		h.objects = append(h.objects, ref.String())
	}
	slices.Sort(h.objects)
	return h
}

// condition returns the condition Held, nil if there is none.
func (h *hold) condition() *metav1.Condition {
	if h == nil {
		return nil
	}
	var c metav1.Condition
	switch {
	case h.invalid:
		c = isTrue(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonInvalidHold, h.message()+"; see status.errors")
	case len(h.objects) == 0:
		c = isFalse(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonNothingHeld,
			"annotation "+controlv1alpha1.AnnotationHold+" matches no object that the Binding lists or has delivered")
	default:
		c = isTrue(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonHeld, h.message())
	}
	return &c
}

func (h *hold) message() string {
	return text.Count(len(h.objects), "object") + text.Plural(len(h.objects), " is", " are") + " held by annotation " +
		controlv1alpha1.AnnotationHold + ": " + text.List(h.objects, maxNames)
}
