package binding

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Event is one line of what kubectl describe shows.
type Event struct {
	Type, Reason, Note string
}

// Types of events, as in core/v1.
const (
	normal  = "Normal"
	warning = "Warning"
)

// Events returns what to report about a change of the conditions of a policy: what needs somebody,
// and what is well again or for the first time. What is under way shows in the conditions and ends
// as one of these.
func Events(before, after []metav1.Condition) []Event {
	var events []Event
	add := func(kind, reason, note string) {
		const limit = 1024 // of the API
		events = append(events, Event{kind, reason, text.Clip(note, limit-1)})
	}
	changed := func(kind string) *metav1.Condition {
		was, is := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(after, kind)
		if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			return nil
		}
		return is
	}
	if synced := changed(controlv1alpha1.BindingPolicyConditionSynced); synced != nil {
		switch synced.Reason {
		case controlv1alpha1.ReasonInvalidSpec, controlv1alpha1.ReasonNameTaken, controlv1alpha1.ReasonFailed, controlv1alpha1.ReasonNotObserved,
			controlv1alpha1.ReasonHandOver:
			add(warning, synced.Reason, synced.Message)
		case controlv1alpha1.ReasonDeleting:
			add(normal, synced.Reason, synced.Message)
		}
	}
	if blocked := changed(controlv1alpha1.BindingPolicyConditionRemovalBlocked); blocked != nil {
		add(warning, controlv1alpha1.ReasonRemovalBlocked, blocked.Message)
	} else if meta.FindStatusCondition(before, controlv1alpha1.BindingPolicyConditionRemovalBlocked) != nil &&
		meta.FindStatusCondition(after, controlv1alpha1.BindingPolicyConditionRemovalBlocked) == nil {
		add(normal, controlv1alpha1.ReasonReleased, "no removal is blocked any more: the change was allowed or reverted")
	}
	if ready := changed(controlv1alpha1.BindingPolicyConditionReady); ready != nil {
		switch {
		case ready.Status == metav1.ConditionTrue:
			add(normal, controlv1alpha1.BindingPolicyConditionReady, ready.Message)
		case ready.Reason == controlv1alpha1.ReasonErrors, ready.Reason == controlv1alpha1.ReasonNoDestinations:
			add(warning, ready.Reason, ready.Message)
		case ready.Reason == controlv1alpha1.ReasonNoObjects: // perhaps they are created later
			add(normal, ready.Reason, ready.Message)
		}
	}
	if health := changed(controlv1alpha1.BindingPolicyConditionHealthy); health != nil {
		switch health.Reason {
		case controlv1alpha1.ReasonUnhealthy:
			add(warning, health.Reason, health.Message)
		case controlv1alpha1.ReasonHealthy:
			ready := meta.FindStatusCondition(after, controlv1alpha1.BindingPolicyConditionReady)
			nothing := ready != nil && (ready.Reason == controlv1alpha1.ReasonNoDestinations || ready.Reason == controlv1alpha1.ReasonNoObjects)
			if !nothing {
				add(normal, health.Reason, health.Message)
			}
		}
	}
	return events
}
