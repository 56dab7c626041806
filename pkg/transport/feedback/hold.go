package feedback

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// hold is what the user and Transactions hold of a Binding.
type hold struct {
	byUser  bool     // the user's annotation is there
	objects []string // what it holds; sorted
	invalid bool
	// transactions are what Transactions hold.
	transactions []plan.TransactionHold
}

// holdOf returns what is held of a Placement, nil if nothing is to be held.
func holdOf(p *placement.Placement, held []objref.Ref) *hold {
	if !p.Annotations.HasHold() && len(p.Held.List()) == 0 {
		return nil
	}
	h := &hold{byUser: p.Annotations.HasHold(), invalid: p.Annotations.HoldInvalid, transactions: p.Held.List()}
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
	case len(h.objects) == 0 && len(h.transactions) == 0:
		c = isFalse(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonNothingHeld,
			"annotation "+controlv1alpha1.AnnotationHold+" matches no object that the Binding lists or has delivered")
	default:
		c = isTrue(controlv1alpha1.BindingConditionHeld, controlv1alpha1.ReasonHeld, h.message())
	}
	return &c
}

// annotations names what holds.
func (h *hold) annotations() string {
	switch {
	case h == nil || len(h.transactions) == 0:
		return "annotation " + controlv1alpha1.AnnotationHold
	case h.byUser:
		return "annotation " + controlv1alpha1.AnnotationHold + ", and " + ofTransactions
	}
	return ofTransactions
}

const ofTransactions = "annotation " + pkgv1.AnnotationHeldObjects + " of Binding " + pkgv1.HoldsBinding

func (h *hold) message() string {
	var parts []string
	if len(h.objects) > 0 {
		parts = append(parts, h.ofUser())
	}
	for i := range h.transactions {
		t := &h.transactions[i]
		scope := "until it ends"
		if t.Lasts() {
			scope = "on " + text.Plural(len(t.Clusters), "cluster ", "clusters ") + text.List(t.Clusters, maxNames) + ", where it would break something"
		}
		parts = append(parts, text.Count(len(t.Objects), "object")+text.Plural(len(t.Objects), " is", " are")+plan.HeldFor(t.Transaction)+scope+": "+text.List(t.Objects, maxNames))
	}
	return text.Join(parts, "; ", maxNames)
}

func (h *hold) ofUser() string {
	return text.Count(len(h.objects), "object") + text.Plural(len(h.objects), " is", " are") + " held by annotation " +
		controlv1alpha1.AnnotationHold + ": " + text.List(h.objects, maxNames)
}
