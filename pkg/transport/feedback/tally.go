package feedback

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/delivery"
)

// maxProblems bounds the problems in a status.
const maxProblems = 10

// tally is what is said about one destination, or about several. Its size does not depend on the
// number of copies.
type tally struct {
	appliedCopies, healthyCopies int
	// remarks is nil if nothing else is to be said, as of most destinations most of the time.
	*remarks
}

// remarks are what is said about destinations where not all is well.
type remarks struct {
	// errors are all of the errors, each once, up to delivery.MaxTexts of them. The numbers say of
	// what kind they are.
	errors   listing
	failures int // objects were kept from being delivered
	claims   int // other owners deliver objects
	overfull int // works that the cluster cannot report on
	refused  int // clusters could not apply objects

	tooLarge   []string // objects, each once
	leaving    names    // objects that are being handed over
	heldBack   names    // clusters
	heldBy     string   // the annotations that hold
	delivering names    // clusters
	waiting    names    // "cluster: object"
	applying   names    // clusters
	silent     names    // clusters
	gone       names    // "cluster: object"

	problems      []string // the first maxProblems of them, sorted by cluster and object
	problemsCount int
	progressing   names // "cluster: object"
	mute          names // clusters, some with the reason

	// until is when something else is to be said, without an event; zero is never.
	until time.Time
}

// add adds what is said about the next destination.
func (t *tally) add(other tally) {
	t.appliedCopies += other.appliedCopies
	t.healthyCopies += other.healthyCopies
	if other.remarks == nil {
		return
	}
	if t.remarks == nil {
		t.remarks = &remarks{}
	}
	r, o := t.remarks, other.remarks
	r.errors = r.errors.plus(o.errors, delivery.MaxTexts) // of different clusters, so none is in both
	r.failures += o.failures
	r.claims += o.claims
	r.overfull += o.overfull
	r.refused += o.refused
	for _, name := range o.tooLarge {
		if !slices.Contains(r.tooLarge, name) {
			r.tooLarge = append(r.tooLarge, name)
		}
	}
	r.leaving.add(o.leaving)
	r.heldBack.add(o.heldBack)
	r.delivering.add(o.delivering)
	r.waiting.add(o.waiting)
	r.applying.add(o.applying)
	r.silent.add(o.silent)
	r.gone.add(o.gone)
	r.problems = append(r.problems, o.problems[:min(len(o.problems), maxProblems-len(r.problems))]...)
	r.problemsCount += o.problemsCount
	r.progressing.add(o.progressing)
	r.mute.add(o.mute)
	r.until = earlier(r.until, o.until)
}

// earlier returns the earlier one of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// delivered returns the condition Delivered.
func (r *remarks) delivered(scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionDelivered
	switch {
	case r.failures > 0:
		return isFalse(kind, controlv1alpha1.ReasonFailed, text.Count(r.failures, "error")+"; see status.errors")
	case r.claims > 0:
		return isFalse(kind, controlv1alpha1.ReasonConflict,
			text.Count(r.claims, "conflict")+" over objects that another WDS or package delivers; see status.errors")
	case r.delivering.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, "being delivered to: "+r.delivering.String())
	case r.waiting.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, "waiting until these are applied: "+r.waiting.String())
	case r.leaving.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, r.leaving.String())
	case r.heldBack.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonHeld,
			r.heldBy+text.Plural(strings.Count(r.heldBy, " and ")+1, " holds", " hold")+" back changes to: "+r.heldBack.String())
	}
	return isTrue(kind, controlv1alpha1.ReasonDelivered, scope)
}

// applied returns the condition Applied, given the condition Delivered.
func (r *remarks) applied(delivered *metav1.Condition, scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionApplied
	switch {
	case r.overfull > 0:
		return isFalse(kind, controlv1alpha1.ReasonTooLarge,
			text.Count(r.overfull, "ManifestWork")+" with too many objects for a report; see status.errors")
	case r.refused > 0:
		return isFalse(kind, controlv1alpha1.ReasonFailed, text.Count(r.refused, "object")+" could not be applied; see status.errors")
	case delivered.Status == metav1.ConditionFalse:
		return isFalse(kind, controlv1alpha1.ReasonNotDelivered, "see condition "+controlv1alpha1.BindingConditionDelivered)
	case r.applying.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonApplying, "not applied yet in: "+r.applying.String())
	case r.gone.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonApplying,
			"deleted in the cluster, whose agent creates it again within minutes, or with the next edit: "+r.gone.String())
	case r.silent.len() > 0:
		return isUnknown(kind, "clusters not reporting status: "+r.silent.String())
	}
	return isTrue(kind, controlv1alpha1.ReasonApplied, scope)
}

// healthy returns the condition Healthy, given the condition Applied.
func (r *remarks) healthy(applied *metav1.Condition, scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionHealthy
	switch {
	case r.problemsCount > r.refused:
		return isFalse(kind, controlv1alpha1.ReasonUnhealthy, text.Count(r.problemsCount, "problem")+"; see status.problems")
	case applied.Status != metav1.ConditionTrue:
		c := isFalse(kind, controlv1alpha1.ReasonNotApplied, "see condition "+controlv1alpha1.BindingConditionApplied)
		c.Status = applied.Status
		return c
	case r.progressing.len() > 0:
		return isFalse(kind, controlv1alpha1.ReasonProgressing, "not healthy yet: "+r.progressing.String())
	case r.mute.len() > 0:
		return isUnknown(kind, "clusters not reporting status: "+r.mute.String())
	}
	return isTrue(kind, controlv1alpha1.ReasonHealthy, scope)
}

func isTrue(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func isFalse(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func isUnknown(kind, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: controlv1alpha1.ReasonNotReported, Message: message}
}
