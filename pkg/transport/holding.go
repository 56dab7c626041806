package transport

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// holding is what the annotation of a Binding holds.
type holding struct {
	objects []string
	invalid bool
}

// holdingOf returns the held objects among those that a Binding lists or has delivered, nil if the annotation is not there.
func (c *Controller) holdingOf(p *placement) *holding {
	if p.texts[0] == "" {
		return nil
	}
	held := map[objref.Ref]bool{}
	note := func(ref objref.Ref) {
		if !held[ref] && p.hold.Holds(ref) {
			held[ref] = true
		}
	}
	if p.hold.Any() {
		for ref := range p.objects {
			note(ref)
		}
		for _, s := range c.spaces {
			for _, mailbox := range s.store.mailboxes(p.uid) {
				for _, work := range s.store.of(p.uid, mailbox) {
					for i := range work.Items {
						note(work.Items[i].Ref)
					}
				}
			}
		}
	}
	h := &holding{invalid: p.invalid}
	for ref := range held {
		h.objects = append(h.objects, ref.String())
	}
	return h
}

// condition returns the condition Held, nil if it is not to be there.
func (h *holding) condition() *metav1.Condition {
	if h == nil {
		return nil
	}
	var c metav1.Condition
	switch {
	case h.invalid:
		c = yes(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonInvalidHold, h.message()+"; see status.errors")
	case len(h.objects) == 0:
		c = no(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonNothingHeld,
			"annotation "+controlv1alpha1.AnnotationHold+" names nothing that the Binding lists or has delivered")
	default:
		c = yes(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonHeld, h.message())
	}
	return &c
}

func (h *holding) message() string {
	return fmt.Sprintf("%d objects are held by annotation %s: %s", len(h.objects), controlv1alpha1.AnnotationHold, names(h.objects))
}
