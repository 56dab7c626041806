package transport

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

const (
	maxErrors = 32
	maxNames  = 5
)

// judge says what is to be said of a situation.
func judge(in situation) (delivered, applied metav1.Condition, texts []string) {
	if in.deleting {
		message := "waiting for works to be gone from: " + names(in.left)
		if len(in.left) == 0 {
			message = "all works are gone"
		}
		return no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDeleting, message),
			no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonNotDelivered, "the Binding is being deleted"), nil
	}
	var t tally
	t.texts = slices.Clone(in.problems)
	for i := range in.sites {
		t.add(&in.sites[i])
	}
	for _, ref := range t.tooLarge {
		t.texts = append(t.texts, ref+": is too large for a work; see --max-size-wrapped")
	}
	undelivered := len(t.texts)
	t.texts = append(t.texts, t.refused...)

	scope := fmt.Sprintf("%d objects for %d clusters", in.objects, len(in.sites))
	switch {
	case undelivered > 0:
		delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonFailed,
			fmt.Sprintf("%d errors, see status.errors", undelivered))
	case len(t.delivering) > 0:
		delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivering, "under way to: "+names(t.delivering))
	case len(t.waiting) > 0:
		delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivering, "waiting for: "+names(t.waiting))
	default:
		delivered = yes(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivered, scope)
	}
	switch {
	case len(t.refused) > 0:
		applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonFailed,
			fmt.Sprintf("%d objects could not be applied, see status.errors", len(t.refused)))
	case delivered.Status == metav1.ConditionFalse:
		applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonNotDelivered, "see condition "+controlv1alpha1.BindingConditionDelivered)
	case len(t.applying) > 0:
		applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonApplying, "waiting for: "+names(t.applying))
	default:
		applied = yes(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonApplied, scope)
	}
	return delivered, applied, t.texts
}

// tally adds up what is to be said of the destinations.
type tally struct {
	texts      []string // what kept objects from being delivered
	refused    []string // what clusters said of objects that they could not apply
	tooLarge   []string // objects
	delivering []string // clusters
	waiting    []string // "cluster: object"
	applying   []string // clusters
}

func (t *tally) add(s *site) {
	if s.problem != "" {
		t.texts = append(t.texts, s.name+": "+s.problem)
		return
	}
	for _, text := range s.errors {
		t.texts = append(t.texts, s.name+": "+text)
	}
	if !s.known {
		t.delivering = append(t.delivering, s.name)
	}
	for _, ref := range s.tooLarge {
		if text := ref.String(); !slices.Contains(t.tooLarge, text) {
			t.tooLarge = append(t.tooLarge, text)
		}
	}
	for _, w := range s.waiting {
		if text := s.name + ": " + w.For.String(); !slices.Contains(t.waiting, text) {
			t.waiting = append(t.waiting, text)
		}
	}
	pending := false
	for _, work := range s.works {
		if work.Deleting {
			continue
		}
		for i := range work.Items {
			item := &work.Items[i]
			switch {
			case item.State == plan.Applied:
			case item.State == plan.Failed && (!work.patient || !passing(item)):
				t.refused = append(t.refused, s.name+": "+item.Ref.String()+": "+applyError(item))
			default:
				pending = true
			}
		}
	}
	if pending {
		t.applying = append(t.applying, s.name)
	}
}

func yes(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// names lists names, sorted, as far as a message should.
func names(all []string) string {
	all = slices.Sorted(slices.Values(all))
	if len(all) <= maxNames {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s … and %d more", strings.Join(all[:maxNames], ", "), len(all)-maxNames)
}

// bound sorts errors and cuts their list.
func bound(texts []string) []string {
	if len(texts) == 0 {
		return nil
	}
	texts = slices.Compact(slices.Sorted(slices.Values(texts)))
	if len(texts) <= maxErrors {
		return texts
	}
	return append(texts[:maxErrors:maxErrors], fmt.Sprintf("… and %d more", len(texts)-maxErrors))
}
