package feedback

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/delivery"
)

// decideStatus returns the status of a Binding in a situation. The times of conditions change only
// with their statuses.
func decideStatus(old *controlv1alpha1.BindingStatus, in situation) (controlv1alpha1.BindingStatus, verdict) {
	status := controlv1alpha1.BindingStatus{
		ObservedGeneration: in.generation,
		Conditions:         slices.Clone(old.Conditions),
	}
	v := evaluate(in)
	conditions := []metav1.Condition{v.delivered, v.applied, v.healthy}
	if v.held != nil {
		conditions = append(conditions, *v.held)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, controlv1alpha1.BindingConditionHeld)
	}
	for _, condition := range conditions {
		condition.ObservedGeneration = in.generation
		condition.LastTransitionTime = metav1.NewTime(in.now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.Errors = delivery.BoundMore(v.errors, v.moreErrors)
	status.Problems, status.ProblemsCount, status.Rollup = v.problems, v.problemsCount, v.rollup
	if in.deleting {
		status.Rollup = old.Rollup // as it was before the deletion
	}
	return status, v
}

// verdict is what is said about a situation.
type verdict struct {
	delivered, applied, healthy metav1.Condition
	held                        *metav1.Condition // nil if there is no annotation about holds
	errors                      []string          // the first ones
	moreErrors                  int
	problems                    []string // the first maxProblems
	problemsCount               int64
	rollup                      *controlv1alpha1.Rollup
	// recheck is after what time the verdict may change without an event; zero is never.
	recheck time.Duration
}

// underWay reports whether the situation changes soon without an error that is known already.
func (v *verdict) underWay() bool {
	return len(v.errors) == 0 && (v.delivered.Reason == controlv1alpha1.ReasonDelivering || v.applied.Reason == controlv1alpha1.ReasonApplying ||
		v.healthy.Reason == controlv1alpha1.ReasonProgressing)
}

// evaluate returns what is said about a situation.
func evaluate(in situation) verdict {
	if in.deleting {
		return evaluateDeletion(&in)
	}
	t := tally{remarks: &remarks{failures: len(in.problems), heldBack: namesOf(in.heldBack...), heldBy: in.hold.annotations(), leaving: namesOf(in.leaving...)}}
	t.add(in.tally)
	tooLarge := each(t.tooLarge, func(ref string) string {
		return ref + ": is too large for a work. Make it smaller, or raise --max-size-wrapped of the transport-controller"
	})
	t.failures += len(tooLarge)
	scope := scopeOf(in.objects, in.clusters)
	v := verdict{delivered: t.delivered(scope)}
	v.applied = t.applied(&v.delivered, scope)
	v.healthy = t.healthy(&v.applied, scope)
	v.held = in.hold.condition()
	v.errors, v.moreErrors = slices.Concat(in.problems, t.errors.first, tooLarge, in.mistakes), t.errors.more
	v.problems, v.problemsCount = t.problems, int64(t.problemsCount)
	v.rollup = &controlv1alpha1.Rollup{
		Objects: int64(in.objects), Clusters: int64(in.clusters), Copies: int64(in.objects) * int64(in.clusters), Incomplete: in.incomplete,
		Applied: int64(t.appliedCopies), Healthy: int64(t.healthyCopies),
	}
	binding.SetTexts(v.rollup)
	if !t.until.IsZero() {
		v.recheck = t.until.Sub(in.now)
	}
	return v
}

// scopeOf says how much of what a condition that is True is about.
func scopeOf(objects, clusters int) string {
	if clusters == 0 {
		return "no destinations: the Binding lists no clusters"
	}
	return text.Count(objects, "object") + " for " + text.Count(clusters, "cluster")
}

// evaluateDeletion returns what is said about a Binding that is being deleted.
func evaluateDeletion(in *situation) verdict {
	message := "waiting until the works are removed from: " + namesOf(in.left...).String()
	if len(in.left) == 0 {
		message = "all works are removed"
	}
	if len(in.heldBack) > 0 && in.hold != nil {
		message += "; " + in.hold.message()
	}
	if len(in.leaving) > 0 {
		message += "; " + namesOf(in.leaving...).String()
	}
	return verdict{
		held:      in.hold.condition(),
		delivered: isFalse(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDeleting, message),
		applied:   isFalse(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonNotDelivered, "the Binding is being deleted"),
		healthy:   isFalse(controlv1alpha1.BindingConditionHealthy, controlv1alpha1.ReasonNotApplied, "the Binding is being deleted"),
		errors:    slices.Concat(in.problems, in.mistakes),
	}
}

// situation is what the status of a Binding is computed from.
type situation struct {
	generation int64
	deleting   bool
	left       []string // where works are left of a Binding that is being deleted
	leaving    []string // objects that are being handed over at destinations that are not listed any more
	mistakes   []string // in annotations
	hold       *hold    // nil if there is no annotation about holds
	objects    int      // that every destination should hold, also those that cannot be delivered
	incomplete bool     // there are more, of which nothing is known
	heldBack   []string // destinations that are not listed any more, and hold something held
	problems   []string // of objects at every destination, and of destinations that are not listed any more
	clusters   int
	tally      tally // of the clusters
	now        time.Time
}
