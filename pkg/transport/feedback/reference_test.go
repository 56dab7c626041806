package feedback

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// statusOfAll returns the status of a Binding, given all its destinations, and when it may change
// by itself: as decideStatus, but in one pass over all copies, of which it keeps every text.
func statusOfAll(old *controlv1alpha1.BindingStatus, in situation, destinations []destination) (controlv1alpha1.BindingStatus, time.Duration) {
	t := whole{texts: slices.Clone(in.problems), heldBack: in.heldBack, leaving: in.leaving, now: in.now}
	for i := range destinations {
		t.add(&destinations[i])
	}
	for _, ref := range t.tooLarge {
		t.texts = append(t.texts, ref+": is too large for a work. Make it smaller, or raise --max-size-wrapped of the transport-controller")
	}
	scope := scopeOf(in.objects, len(destinations))
	delivered := t.delivered(scope)
	applied := t.applied(&delivered, scope)
	healthy := t.healthy(&applied, scope)
	status := controlv1alpha1.BindingStatus{ObservedGeneration: in.generation, Conditions: slices.Clone(old.Conditions)}
	for _, condition := range []metav1.Condition{delivered, applied, healthy} {
		condition.ObservedGeneration = in.generation
		condition.LastTransitionTime = metav1.NewTime(in.now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
	status.Errors = delivery.Bound(slices.Concat(t.texts, t.claims, t.disputes, t.overfull, t.refused, in.mistakes))
	status.Problems, status.ProblemsCount = t.problems, int64(t.problemsCount)
	status.Rollup = rollupOf(in.objects, len(destinations), t.appliedCopies, t.healthyCopies)
	return status, t.recheck
}

// whole adds up what is said about the destinations, with every text about each.
type whole struct {
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
	gone       []string // copies

	appliedCopies, healthyCopies int
	problems                     []string // the first maxProblems of them, sorted by cluster and object
	problemsCount                int
	progressing                  []string // "cluster: object"
	mute                         []string // clusters, some with the reason

	now     time.Time
	recheck time.Duration
}

// add adds a destination.
func (t *whole) add(d *destination) {
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
func (t *whole) reports(d *destination) (refused []string, pending, silent bool) {
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
				left := patienceLeft(work, item, t.now)
				if left == 0 {
					refused = append(refused, d.Name+": "+item.Ref.String()+": "+item.Refusal())
					continue
				}
				pending = true
				t.recheck = delivery.Sooner(t.recheck, left)
			}
		}
	}
	return refused, pending, silent
}

// patienceLeft returns for how long a failure is no error yet; zero if it is one. The time is that
// by the clock of the cluster, which a restart of this process does not change, but at most the
// time that this process has seen: clocks differ.
func patienceLeft(work *delivery.Work, item *plan.Item, now time.Time) time.Duration {
	if !item.Transient() {
		return 0
	}
	return max(0, min(time.Unix(item.Since, 0).Add(transientFor).Sub(now), work.FailingSince.Add(transientFor).Sub(now)))
}

// health adds the health of the objects at a destination, and the objects that it refused.
func (t *whole) health(d *destination, refused []string) {
	h := wholeHealthOf(d, t.now)
	t.appliedCopies += h.applied
	t.healthyCopies += h.healthy
	t.progressing = appendPrefixed(t.progressing, d.Name, h.progressing)
	t.gone = appendPrefixed(t.gone, d.Name, h.gone)
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
func (t *whole) delivered(scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionDelivered
	switch {
	case len(t.texts) > 0:
		return isFalse(kind, controlv1alpha1.ReasonFailed, text.Count(len(t.texts), "error")+"; see status.errors")
	case len(t.claims) > 0:
		return isFalse(kind, controlv1alpha1.ReasonConflict,
			text.Count(len(t.claims), "conflict")+" over objects that another WDS or package delivers; see status.errors")
	case len(t.delivering) > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, "being delivered to: "+allNames(t.delivering))
	case len(t.waiting) > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, "waiting until these are applied: "+allNames(t.waiting))
	case len(t.leaving) > 0:
		return isFalse(kind, controlv1alpha1.ReasonDelivering, allNames(t.leaving))
	case len(t.heldBack) > 0:
		return isFalse(kind, controlv1alpha1.ReasonHeld,
			"annotation "+controlv1alpha1.AnnotationHold+" holds back changes to: "+allNames(t.heldBack))
	}
	return isTrue(kind, controlv1alpha1.ReasonDelivered, scope)
}

// applied returns the condition Applied, given the condition Delivered.
func (t *whole) applied(delivered *metav1.Condition, scope string) metav1.Condition {
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
		return isFalse(kind, controlv1alpha1.ReasonApplying, "not applied yet in: "+allNames(t.applying))
	case len(t.gone) > 0:
		return isFalse(kind, controlv1alpha1.ReasonApplying,
			"deleted in the cluster, whose agent creates it again within minutes, or with the next edit: "+allNames(t.gone))
	case len(t.silent) > 0:
		return isUnknown(kind, "clusters not reporting status: "+allNames(t.silent))
	}
	return isTrue(kind, controlv1alpha1.ReasonApplied, scope)
}

// healthy returns the condition Healthy, given the condition Applied.
func (t *whole) healthy(applied *metav1.Condition, scope string) metav1.Condition {
	const kind = controlv1alpha1.BindingConditionHealthy
	switch {
	case t.problemsCount > len(t.refused):
		return isFalse(kind, controlv1alpha1.ReasonUnhealthy, text.Count(t.problemsCount, "problem")+"; see status.problems")
	case applied.Status != metav1.ConditionTrue:
		c := isFalse(kind, controlv1alpha1.ReasonNotApplied, "see condition "+controlv1alpha1.BindingConditionApplied)
		c.Status = applied.Status
		return c
	case len(t.progressing) > 0:
		return isFalse(kind, controlv1alpha1.ReasonProgressing, "not healthy yet: "+allNames(t.progressing))
	case len(t.mute) > 0:
		return isUnknown(kind, "clusters not reporting status: "+allNames(t.mute))
	}
	return isTrue(kind, controlv1alpha1.ReasonHealthy, scope)
}

// allCopies is the health of the copies of a Binding's objects at one destination.
type allCopies struct {
	applied, healthy int
	problems         []string // of copies that are not healthy
	progressing      []string // copies
	mute             []string // copies that nobody reports
	gone             []string // copies
	recheck          time.Duration
}

// wholeHealthOf adds up the health of the objects that a destination should hold.
func wholeHealthOf(d *destination, now time.Time) (c allCopies) {
	seen := map[objref.Ref]bool{}
	for i := range d.Works {
		work := &d.Works[i]
		if work.Deleting {
			continue
		}
		for j := range work.Items {
			item := &work.Items[j]
			// An object that moves is in two works until it is applied in the new one.
			if item.Observe || seen[item.Ref] || item.State != plan.Applied && item.State != plan.Silent || !d.wants(item.Ref) {
				continue
			}
			seen[item.Ref] = true
			if item.State == plan.Silent {
				c.mute = append(c.mute, item.Ref.String())
				continue
			}
			if report, reported := d.Report(item.Ref); reported && report.Gone && (report.Source == "" || item.Source == "" || report.Source == item.Source) {
				c.gone = append(c.gone, item.Ref.String())
				continue
			}
			c.applied++
			c.add(d, item, now)
		}
	}
	return c
}

// add adds an object that is applied.
func (c *allCopies) add(d *destination, item *plan.Item, now time.Time) {
	if !d.excluded.Reports(item.Ref.GroupResource()) {
		c.healthy++ // it has no status: to exist is all that it is for
		return
	}
	report, reported := d.Report(item.Ref)
	reported = reported && (report.Source == "" || item.Source == "" || report.Source == item.Source || item.CreateOnly)
	switch {
	case reported && report.State == health.Healthy:
		c.healthy++
	case reported && report.State == health.Unhealthy:
		c.problems = append(c.problems, item.Ref.String()+": "+report.Message)
	case reported:
		c.progressing = append(c.progressing, item.Ref.String()+" ("+report.Message+")")
	case d.Reports != plugin.ReportsRead:
		c.mute = append(c.mute, item.Ref.String())
	default:
		since := time.Unix(item.Since, 0)
		if d.missingSince != nil {
			since = d.missingSince(item.Ref, since)
		}
		left := since.Add(reportPatience).Sub(now)
		if left <= 0 {
			c.problems = append(c.problems, item.Ref.String()+": is applied, but the cluster does not report its status")
			return
		}
		c.progressing = append(c.progressing, item.Ref.String()+" (not reported yet)")
		c.recheck = delivery.Sooner(c.recheck, left)
	}
}

// copyKey identifies a copy: an object in a mailbox.
type copyKey struct {
	mailbox string
	ref     objref.Ref
}

// missingCopies are the copies of which a report is missing, and since when.
type missingCopies map[copyKey]time.Time

// since returns since when a report is missing that is missing now, and records it in current. It
// is measured by our clock, because that of a cluster may be wrong. Only a report that is found
// missing at the start counts as missing since its object was applied: otherwise a restart would
// withdraw a problem for a while.
func (before missingCopies) since(current missingCopies, key copyKey, applied, now time.Time, starting bool) time.Time {
	since, known := before[key]
	switch {
	case known:
	case starting && applied.Before(now):
		since = applied
	default:
		since = now
	}
	current[key] = since
	return since
}

// allNames lists names, sorted, as far as a message should.
func allNames(all []string) string { return text.List(slices.Sorted(slices.Values(all)), maxNames) }

// appendPrefixed appends texts about a cluster to all.
func appendPrefixed(all []string, cluster string, texts []string) []string {
	for _, text := range texts {
		all = append(all, cluster+": "+text)
	}
	return all
}

// rollupOf returns a Rollup with these counts, of which all are known.
func rollupOf(objects, clusters, applied, healthy int) *controlv1alpha1.Rollup {
	copies := int64(objects) * int64(clusters)
	return &controlv1alpha1.Rollup{
		Objects: int64(objects), Clusters: int64(clusters), Copies: copies, Applied: int64(applied), Healthy: int64(healthy),
		AppliedOf: fmt.Sprintf("%d/%d", applied, copies), HealthyOf: fmt.Sprintf("%d/%d", healthy, copies),
	}
}
