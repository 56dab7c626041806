package transport

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

const (
	maxErrors   = 32
	maxNames    = 5
	maxProblems = 10
)

// verdict is what is said of a situation.
type verdict struct {
	delivered, applied, healthy metav1.Condition
	held                        *metav1.Condition // nil if nobody asks for anything to be held
	errors                      []string
	problems                    []string // bounded
	rollup                      *controlv1alpha1.Rollup
	// recheck is after what time it may change by itself; zero is never.
	recheck time.Duration
}

// underWay tells whether the situation is one that changes by itself, for the better as far as one can see.
func (v *verdict) underWay() bool {
	return len(v.errors) == 0 && (v.delivered.Reason == controlv1alpha1.ReasonDelivering || v.applied.Reason == controlv1alpha1.ReasonApplying ||
		v.healthy.Reason == controlv1alpha1.ReasonProgressing)
}

// judge says what is to be said of a situation.
func judge(in situation) verdict {
	if in.deleting {
		message := "waiting for works to be gone from: " + names(in.left)
		if len(in.left) == 0 {
			message = "all works are gone"
		}
		if len(in.heldBack) > 0 && in.hold != nil {
			message += "; " + in.hold.message()
		}
		if len(in.leaving) > 0 {
			message += "; " + names(in.leaving)
		}
		return verdict{
			held:      in.hold.condition(),
			delivered: no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDeleting, message),
			applied:   no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonNotDelivered, "the Binding is being deleted"),
			healthy:   no(controlv1alpha1.BindingConditionHealthy, controlv1alpha1.ReasonNotApplied, "the Binding is being deleted"),
			errors:    slices.Concat(in.problems, in.mistakes),
		}
	}
	t := tally{texts: slices.Clone(in.problems), heldBack: in.heldBack, leaving: in.leaving, now: in.now}
	for i := range in.sites {
		t.add(&in.sites[i])
	}
	for _, ref := range t.tooLarge {
		t.texts = append(t.texts, ref+": is too large for a work; see --max-size-wrapped")
	}
	v := t.verdict(in)
	v.errors = slices.Concat(t.texts, t.claims, t.disputes, t.refused, in.mistakes)
	v.held = in.hold.condition()
	v.recheck = t.recheck
	return v
}

// tally adds up what is to be said of the destinations.
type tally struct {
	texts      []string // what kept objects from being delivered
	refused    []string // what clusters said of objects that they could not apply
	tooLarge   []string // objects
	claims     []string // objects that other WDSes deliver
	disputes   []string // objects that other WDSes would deliver as well
	leaving    []string // objects that are being handed over
	heldBack   []string // clusters
	delivering []string // clusters
	waiting    []string // "cluster: object"
	applying   []string // clusters
	silent     []string // clusters

	copies, well  int      // objects in clusters: that are applied, and that are well
	problems      []string // the first of them, sorted by cluster and object
	problemsCount int
	progressing   []string // "cluster: object"
	mute          []string // clusters

	now     time.Time
	recheck time.Duration
}

func (t *tally) verdict(in situation) (v verdict) {
	scope := fmt.Sprintf("%d objects for %d clusters", in.objects, len(in.sites))
	switch {
	case len(t.texts) > 0:
		v.delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonFailed,
			fmt.Sprintf("%d errors, see status.errors", len(t.texts)))
	case len(t.claims) > 0:
		v.delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonConflict,
			fmt.Sprintf("%d conflicts with other WDSes, see status.errors", len(t.claims)))
	case len(t.delivering) > 0:
		v.delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivering, "under way to: "+names(t.delivering))
	case len(t.waiting) > 0:
		v.delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivering, "waiting for: "+names(t.waiting))
	case len(t.leaving) > 0:
		v.delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivering, names(t.leaving))
	case len(t.heldBack) > 0:
		v.delivered = no(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonHeld,
			"annotation "+controlv1alpha1.AnnotationHold+" keeps changes from: "+names(t.heldBack))
	default:
		v.delivered = yes(controlv1alpha1.BindingConditionDelivered, controlv1alpha1.ReasonDelivered, scope)
	}
	switch {
	case len(t.refused) > 0:
		v.applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonFailed,
			fmt.Sprintf("%d objects could not be applied, see status.errors", len(t.refused)))
	case v.delivered.Status == metav1.ConditionFalse:
		v.applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonNotDelivered, "see condition "+controlv1alpha1.BindingConditionDelivered)
	case len(t.applying) > 0:
		v.applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonApplying, "waiting for: "+names(t.applying))
	case len(t.silent) > 0:
		v.applied = no(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonNotReported, "nothing comes back from: "+names(t.silent))
		v.applied.Status = metav1.ConditionUnknown
	default:
		v.applied = yes(controlv1alpha1.BindingConditionApplied, controlv1alpha1.ReasonApplied, scope)
	}
	v.healthy = t.health(&v, scope)
	v.problems = t.problems
	if more := t.problemsCount - len(t.problems); more > 0 {
		v.problems = append(v.problems, fmt.Sprintf("… and %d more", more))
	}
	v.rollup = rollupOf(in.objects, len(in.sites), t.copies, t.well)
	return v
}

// rollupOf puts counts together.
func rollupOf(objects, clusters, applied, healthy int) *controlv1alpha1.Rollup {
	copies := int64(objects) * int64(clusters)
	return &controlv1alpha1.Rollup{
		Objects: int64(objects), Clusters: int64(clusters), Copies: copies, Applied: int64(applied), Healthy: int64(healthy),
		AppliedOf: fmt.Sprintf("%d/%d", applied, copies), HealthyOf: fmt.Sprintf("%d/%d", healthy, copies),
	}
}

// health says whether what was delivered is well.
func (t *tally) health(v *verdict, scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionHealthy
	switch {
	case t.problemsCount > len(t.refused):
		return no(kind, controlv1alpha1.ReasonUnhealthy, fmt.Sprintf("%d problems, see status.problems", t.problemsCount))
	case v.applied.Status != metav1.ConditionTrue:
		c := no(kind, controlv1alpha1.ReasonNotApplied, "see condition "+controlv1alpha1.BindingConditionApplied)
		c.Status = v.applied.Status
		return c
	case len(t.progressing) > 0:
		return no(kind, controlv1alpha1.ReasonProgressing, "waiting for: "+names(t.progressing))
	case len(t.mute) > 0:
		c := no(kind, controlv1alpha1.ReasonNotReported, "nothing is reported from: "+names(t.mute))
		c.Status = metav1.ConditionUnknown
		return c
	}
	return yes(kind, controlv1alpha1.ReasonHealthy, scope)
}

// wellbeing adds up how the objects do at a destination, and what it refused.
func (t *tally) wellbeing(s *site, refused []string) {
	w := s.wellbeing(t.now)
	t.copies += w.applied
	t.well += w.healthy
	for _, text := range w.progressing {
		t.progressing = append(t.progressing, s.name+": "+text)
	}
	if len(w.mute) > 0 {
		t.mute = append(t.mute, s.name)
	}
	problems := slices.Clone(refused)
	for _, text := range w.problems {
		problems = append(problems, s.name+": "+text)
	}
	t.problemsCount += len(problems)
	slices.Sort(problems)
	t.problems = append(t.problems, problems[:min(len(problems), maxProblems-len(t.problems))]...)
	if w.recheck > 0 && (t.recheck == 0 || w.recheck < t.recheck) {
		t.recheck = w.recheck
	}
}

func (t *tally) add(s *site) {
	if s.problem != "" {
		t.texts = append(t.texts, s.name+": "+s.problem)
		return
	}
	for _, text := range s.errors {
		t.texts = append(t.texts, s.name+": "+text)
	}
	for _, text := range s.claims {
		t.claims = append(t.claims, s.name+": "+text)
	}
	for _, text := range s.disputes {
		t.disputes = append(t.disputes, s.name+": "+text)
	}
	for _, text := range s.leaving {
		t.leaving = append(t.leaving, s.name+": "+text)
	}
	if s.heldBack > 0 {
		t.heldBack = append(t.heldBack, s.name)
	}
	if !s.known {
		t.delivering = append(t.delivering, s.name)
	}
	for _, ref := range s.tooLarge {
		if text := ref.String(); !slices.Contains(t.tooLarge, text) {
			t.tooLarge = append(t.tooLarge, text)
		}
	}
	others := len(t.waiting)
	for _, w := range s.waiting {
		if text := s.name + ": " + w.For.String(); !slices.Contains(t.waiting[others:], text) {
			t.waiting = append(t.waiting, text)
		}
	}
	refused := len(t.refused)
	pending, silent := t.reports(s)
	t.wellbeing(s, t.refused[refused:])
	switch {
	case pending || s.unseen:
		t.applying = append(t.applying, s.name)
	case silent:
		t.silent = append(t.silent, s.name)
	}
}

// reports adds up what a destination said of its works; it tells whether some answers are still to come, or never will.
func (t *tally) reports(s *site) (pending, silent bool) {
	for w := range s.works {
		work := &s.works[w]
		if work.Deleting {
			continue
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
				left := work.patience(item, t.now)
				if left == 0 {
					t.refused = append(t.refused, s.name+": "+item.Ref.String()+": "+applyError(item))
					continue
				}
				pending = true
				if t.recheck == 0 || left < t.recheck {
					t.recheck = left
				}
			}
		}
	}
	return pending, silent
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
