package binding

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// Recorder tells of events, without blocking. An events.EventRecorder is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// event is one line of what kubectl describe shows.
type event struct {
	kind, reason, note string
}

// eventsOf returns what is worth telling of a change of conditions: what needs somebody, and what is well again or for the first
// time. What is under way shows in the conditions and ends as one of these.
func eventsOf(before, after []metav1.Condition) []event {
	var told []event
	tell := func(kind, reason, note string) { told = append(told, event{kind, reason, bounded(note)}) }
	changed := func(kind string) *metav1.Condition {
		was, is := meta.FindStatusCondition(before, kind), meta.FindStatusCondition(after, kind)
		if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			return nil
		}
		return is
	}
	if synced := changed(controlv1alpha1.BindingPolicyConditionSynced); synced != nil {
		switch synced.Reason {
		case controlv1alpha1.ReasonInvalidSpec, controlv1alpha1.ReasonNameTaken, controlv1alpha1.ReasonFailed, controlv1alpha1.ReasonNotObserved:
			tell(corev1.EventTypeWarning, synced.Reason, synced.Message)
		case controlv1alpha1.ReasonDeleting:
			tell(corev1.EventTypeNormal, synced.Reason, synced.Message)
		}
	}
	if held := changed(controlv1alpha1.BindingPolicyConditionHeld); held != nil {
		tell(corev1.EventTypeWarning, controlv1alpha1.ReasonHeld, held.Message)
	} else if meta.FindStatusCondition(before, controlv1alpha1.BindingPolicyConditionHeld) != nil &&
		meta.FindStatusCondition(after, controlv1alpha1.BindingPolicyConditionHeld) == nil {
		tell(corev1.EventTypeNormal, controlv1alpha1.ReasonReleased, "nothing is held any more: the change was released or undone")
	}
	if ready := changed(controlv1alpha1.BindingPolicyConditionReady); ready != nil {
		switch {
		case ready.Status == metav1.ConditionTrue:
			tell(corev1.EventTypeNormal, controlv1alpha1.BindingPolicyConditionReady, ready.Message)
		case ready.Reason == controlv1alpha1.ReasonErrors:
			tell(corev1.EventTypeWarning, ready.Reason, ready.Message)
		}
	}
	if health := changed(controlv1alpha1.BindingPolicyConditionHealthy); health != nil {
		switch health.Reason {
		case controlv1alpha1.ReasonUnhealthy:
			tell(corev1.EventTypeWarning, health.Reason, health.Message)
		case controlv1alpha1.ReasonHealthy:
			tell(corev1.EventTypeNormal, health.Reason, health.Message)
		}
	}
	return told
}

// bounded cuts a note to what the API takes.
func bounded(note string) string {
	const limit = 1024
	if len(note) < limit {
		return note
	}
	const mark = "…"
	cut := limit - len(mark) - 1
	for cut > 0 && note[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return note[:cut] + mark
}

func (c *Controller) tellEvents(policy *controlv1alpha1.BindingPolicy, after []metav1.Condition) {
	for _, e := range eventsOf(policy.Status.Conditions, after) {
		c.config.Events.Eventf(policy, nil, e.kind, e.reason, "Sync", "%s", e.note)
	}
}
