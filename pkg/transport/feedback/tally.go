package feedback

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

const (
	// transientFor is how long a transient failure is no error: a Namespace may be delivered by
	// another Binding, or created by somebody else.
	transientFor = 30 * time.Second
	maxProblems  = 10
)

// tally adds up what is said about the destinations.
type tally struct {
	texts      []string // what kept objects from being delivered
	refused    []string // what clusters reported of objects that they could not apply
	tooLarge   []string // objects
	overfull   []string // works that the cluster cannot report on
	claims     []string // objects that other owners deliver
	disputes   []string // objects that other owners would deliver as well
	leaving    []string // objects that are being handed over
	heldBack   []string // clusters
	delivering []string // clusters
	waiting    []string // "cluster: object"
	applying   []string // clusters
	silent     []string // clusters

	appliedCopies, healthyCopies int
	problems                     []string // the first maxProblems of them, sorted by cluster and object
	problemsCount                int
	progressing                  []string // "cluster: object"
	mute                         []string // clusters, some with the reason

	now     time.Time
	recheck time.Duration
}

// add adds a destination.
func (t *tally) add(d *destination) {
	if d.NotAccepted {
		t.texts = append(t.texts, d.Name+": is not an accepted cluster of any ITS. Accept its ManagedCluster, or correct the name")
		return
	}
	t.texts = appendPrefixed(t.texts, d.Name, d.Errors)
	t.claims = appendPrefixed(t.claims, d.Name, d.Claims)
	t.disputes = appendPrefixed(t.disputes, d.Name, d.Disputes)
	t.leaving = appendPrefixed(t.leaving, d.Name, d.Leaving)
	if d.HeldBack > 0 {
		t.heldBack = append(t.heldBack, d.Name)
	}
	if !d.Attempted {
		t.delivering = append(t.delivering, d.Name)
	}
	for _, ref := range d.TooLarge {
		if name := ref.String(); !slices.Contains(t.tooLarge, name) {
			t.tooLarge = append(t.tooLarge, name)
		}
	}
	others := len(t.waiting)
	for _, w := range d.Waiting {
		if name := d.Name + ": " + w.For.String(); !slices.Contains(t.waiting[others:], name) {
			t.waiting = append(t.waiting, name)
		}
	}
	refused, pending, silent := t.reports(d)
	t.refused = append(t.refused, refused...)
	t.health(d, refused)
	switch {
	case pending || d.Unobserved:
		t.applying = append(t.applying, d.Name)
	case silent:
		t.silent = append(t.silent, d.Name)
	}
}

// reports returns what a destination reported of objects that it could not apply, and whether some
// reports are still to come, or never will.
func (t *tally) reports(d *destination) (refused []string, pending, silent bool) {
	for w := range d.Works {
		work := &d.Works[w]
		if work.Deleting {
			continue
		}
		if overfull(work) {
			t.overfull = append(t.overfull, fmt.Sprintf(
				"%s: the cluster cannot report on ManifestWork %s: with the report on its %s it would be larger than etcd stores. "+
					"Restart the transport-controller with --max-num-wrapped=%d",
				d.Name, work.Name, text.Count(len(work.Items), "object"), reportable))
		}
		for i := range work.Items {
			item := &work.Items[i]
			switch item.State {
			case plan.Applied:
			case plan.Pending:
				pending = true
			case plan.Silent:
				silent = true
			case plan.Failed:
				left := patience(work, item, t.now)
				if left == 0 {
					refused = append(refused, d.Name+": "+item.Ref.String()+": "+delivery.ApplyError(item))
					continue
				}
				pending = true
				t.recheck = delivery.Sooner(t.recheck, left)
			}
		}
	}
	return refused, pending, silent
}

const (
	// reportSize is what OCM's agent writes into the status of a work for each object, in bytes:
	// the object's identity and three conditions.
	reportSize = 640
	// etcdLimit is the size in bytes of a request that etcd accepts by default.
	etcdLimit = 3 << 19
	// reportable is a number of objects, of any size that a work takes, on which a cluster can
	// report.
	reportable = 1000
)

// overfull reports whether a work is too large for a report on all of its objects, and lacks one.
// Then the agent fails at each attempt to write it.
func overfull(work *delivery.Work) bool {
	size, unreported := len(work.Items)*reportSize, false
	for i := range work.Items {
		size += work.Items[i].Size
		unreported = unreported || work.Items[i].State == plan.Pending
	}
	return unreported && size > etcdLimit
}

// patience returns for how long a failure is no error yet; zero if it is one. The time is that by
// the clock of the cluster, which a restart of this process does not change, but at most the time
// that this process has seen: clocks differ.
func patience(work *delivery.Work, item *plan.Item, now time.Time) time.Duration {
	if !delivery.Transient(item) {
		return 0
	}
	return max(0, min(time.Unix(item.Since, 0).Add(transientFor).Sub(now), work.FailingSince.Add(transientFor).Sub(now)))
}

// health adds the health of the objects at a destination, and the objects that it refused.
func (t *tally) health(d *destination, refused []string) {
	h := healthOf(d, t.now)
	t.appliedCopies += h.applied
	t.healthyCopies += h.healthy
	t.progressing = appendPrefixed(t.progressing, d.Name, h.progressing)
	switch {
	case len(h.mute) == 0:
	case d.Reports == plugin.ReportsPartial:
		t.mute = append(t.mute, d.Name+" (its mailbox has more WorkStatuses than are read)")
	default:
		t.mute = append(t.mute, d.Name)
	}
	problems := appendPrefixed(slices.Clone(refused), d.Name, h.problems)
	t.problemsCount += len(problems)
	slices.Sort(problems)
	t.problems = append(t.problems, problems[:min(len(problems), maxProblems-len(t.problems))]...)
	t.recheck = delivery.Sooner(t.recheck, h.recheck)
}

// delivered returns the condition Delivered.
func (t *tally) delivered(scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionDelivered
	switch {
	case len(t.texts) > 0:
		return isFalse(kind, controlv1alpha1.ReasonFailed, text.Count(len(t.texts), "error")+"; see status.errors")
	case len(t.claims) > 0:
		return isFalse(kind, controlv1alpha1.ReasonConflict,
			text.Count(len(t.claims), "conflict")+" over objects that another WDS or package delivers; see status.errors")
	case len(t.delivering) > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, "being delivered to: "+names(t.delivering))
	case len(t.waiting) > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, "waiting until these are applied: "+names(t.waiting))
	case len(t.leaving) > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, names(t.leaving))
	case len(t.heldBack) > 0:
		return isFalse(kind, controlv1alpha1.ReasonHeld,
			"annotation "+controlv1alpha1.AnnotationHold+" holds back changes to: "+names(t.heldBack))
	}
	return isTrue(kind, controlv1alpha1.ReasonDelivered, scope)
}

// applied returns the condition Applied, given the condition Delivered.
func (t *tally) applied(delivered *metav1.Condition, scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionApplied
	switch {
	case len(t.overfull) > 0:
		return isFalse(kind, controlv1alpha1.ReasonTooLarge,
			text.Count(len(t.overfull), "ManifestWork")+" with too many objects for a report; see status.errors")
	case len(t.refused) > 0:
		return isFalse(kind, controlv1alpha1.ReasonFailed, text.Count(len(t.refused), "object")+" could not be applied; see status.errors")
	case delivered.Status == metav1.ConditionFalse:
		return isFalse(kind, controlv1alpha1.ReasonNotDelivered, "see condition "+controlv1alpha1.BindingConditionDelivered)
	case len(t.applying) > 0:
		return isFalse(kind, controlv1alpha1.ReasonApplying, "not applied yet in: "+names(t.applying))
	case len(t.silent) > 0:
		return isUnknown(kind, controlv1alpha1.ReasonNotReported, "clusters not reporting status: "+names(t.silent))
	}
	return isTrue(kind, controlv1alpha1.ReasonApplied, scope)
}

// healthy returns the condition Healthy, given the condition Applied.
func (t *tally) healthy(applied *metav1.Condition, scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionHealthy
	switch {
	case t.problemsCount > len(t.refused):
		return isFalse(kind, controlv1alpha1.ReasonUnhealthy, text.Count(t.problemsCount, "problem")+"; see status.problems")
	case applied.Status != metav1.ConditionTrue:
		c := isFalse(kind, controlv1alpha1.ReasonNotApplied, "see condition "+controlv1alpha1.BindingConditionApplied)
		c.Status = applied.Status
		return c
	case len(t.progressing) > 0:
		return isFalse(kind, controlv1alpha1.ReasonProgressing, "not healthy yet: "+names(t.progressing))
	case len(t.mute) > 0:
		return isUnknown(kind, controlv1alpha1.ReasonNotReported, "clusters not reporting status: "+names(t.mute))
	}
	return isTrue(kind, controlv1alpha1.ReasonHealthy, scope)
}

// maxNames bounds the names in a message.
const maxNames = 5

func isTrue(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func isFalse(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func isUnknown(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// names lists names, sorted, as far as a message should.
func names(all []string) string { return text.List(slices.Sorted(slices.Values(all)), maxNames) }
