package transport

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// statusInterval is the least time between two writes of the status of one Binding: the answers of a fleet come one by one.
const statusInterval = time.Second

// startUp is how long after the start the status of a Binding is left as it was while not all its mailboxes were looked at.
const startUp = 30 * time.Second

// publication is what was last written to the status of a Binding.
type publication struct {
	at      time.Time
	status  controlv1alpha1.BindingStatus
	version string // resourceVersion of the Binding after the write
}

// syncStatus writes the status of a Binding if its meaning changed: at once after quiet, at most once a second under load.
func (c *Controller) syncStatus(ctx context.Context, name string) (result, error) {
	binding, err := c.binding(name)
	if err != nil || binding == nil {
		return result{}, err
	}
	now := c.clock.Now()
	c.mu.Lock()
	last := c.published[name]
	c.mu.Unlock()
	if wait := last.at.Add(statusInterval).Sub(now); wait > 0 {
		return result{after: wait}, nil
	}
	in, ok := c.gatherStatus(binding, now)
	if !ok {
		return result{}, nil
	}
	if last.at.IsZero() && binding.Status.ObservedGeneration == in.generation && !in.complete() {
		if left := c.started.Add(startUp).Sub(now); left > 0 {
			return result{after: left}, nil // what the last one of us wrote stands until all mailboxes were looked at
		}
	}
	old := &binding.Status
	if newer(last.version, binding.ResourceVersion) {
		old = &last.status // the informer has not seen our last write yet
	}
	status, v := decideStatus(old, in)
	c.noteMissing(name, in.missing)
	if apiequality.Semantic.DeepEqual(*old, status) {
		c.settle(name, now, true)
		return result{after: v.recheck}, nil
	}
	if left := c.settle(name, now, !v.underWay()); left > 0 {
		return result{after: left}, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": binding.UID},
		"status": map[string]any{
			"conditions": status.Conditions, "observedGeneration": status.ObservedGeneration, "errors": status.Errors,
			"problems": status.Problems, "rollup": status.Rollup,
		},
	})
	if err != nil {
		return result{}, err
	}
	t := target(name)
	t.Subresource = "status"
	answer, err := c.config.WDS.Patch(ctx, t, types.MergePatchType, patch, "status")
	if err != nil {
		return result{}, conflictIsStale(err)
	}
	c.mu.Lock()
	c.published[name] = publication{at: now, status: status, version: answer.ResourceVersion}
	delete(c.unsettled, name)
	c.mu.Unlock()
	return result{after: v.recheck}, nil
}

// noteMissing remembers since when reports are missing. One worker has the Binding.
func (c *Controller) noteMissing(name string, now missing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(now) == 0 {
		delete(c.missing, name)
	} else {
		c.missing[name] = now
	}
}

// settling is how long a status that says that something is under way is held back: mostly it is done by then, and what is
// said is that.
const settling = 300 * time.Millisecond

// settle returns for how long a status is still to be held back; nothing if it says how things ended.
func (c *Controller) settle(name string, now time.Time, ended bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended {
		delete(c.unsettled, name)
		return 0
	}
	since, ok := c.unsettled[name]
	if !ok {
		c.unsettled[name] = now
		return settling
	}
	return since.Add(settling).Sub(now)
}

// situation is what the status of a Binding is made of.
type situation struct {
	generation int64
	deleting   bool
	left       []string // where works are of a Binding that is being deleted
	leaving    []string // objects that are being handed over from where they are not wanted any more
	mistakes   []string // in annotations
	hold       *holding // nil if nobody asks for anything to be held
	objects    int
	heldBack   []string // mailboxes that are not listed any more, and hold something held
	problems   []string // of objects, whatever the destination, and of destinations that are not listed any more
	sites      []site   // the destinations, sorted by name
	missing    missing  // is filled while the sites are judged
	now        time.Time
}

// complete tells whether all destinations were looked at, and what they report was read.
func (in *situation) complete() bool {
	return !slices.ContainsFunc(in.sites, func(s site) bool { return s.problem == "" && (!s.known || s.reports == ReportsUnread) })
}

// site is one destination.
type site struct {
	name string
	// problem tells why nothing can be delivered there.
	problem string
	// known tells that a delivery of what the Binding asks for now was tried.
	known bool
	outcome
	works []workReport
	// wants tells which objects are to be there; verdict is what was reported of them, as far as reports says.
	wants   func(objref.Ref) bool
	verdict func(objref.Ref) (health.Verdict, bool)
	reports Reports
	// excluded are kinds of which no reports are expected.
	excluded corestatus.Excluded
	// missed returns since when a report is missing, given since when the object is applied by the clock of the cluster.
	missed func(ref objref.Ref, applied time.Time) time.Time
	// unseen tells that something was written that the works do not show yet.
	unseen bool
}

// workReport is what a destination says of one work.
type workReport struct {
	*plan.Work
	// seen is since when we have seen the work fail.
	seen time.Time
}

// gatherStatus looks up the situation of a Binding; ok is false if it is not known yet what the Binding asks for.
func (c *Controller) gatherStatus(binding *controlv1alpha1.Binding, now time.Time) (in situation, ok bool) {
	p := c.placementOf(binding.Name)
	if p == nil || p.uid != binding.UID {
		return situation{}, false
	}
	in = situation{
		generation: p.generation, deleting: p.deleting, problems: slices.Clone(p.problems), mistakes: p.mistakes,
		hold: c.holdingOf(p), now: now, missing: missing{},
	}
	c.mu.Lock()
	outcomes := maps.Clone(c.outcomes[binding.Name])
	missingBefore := c.missing[binding.Name]
	c.mu.Unlock()
	starting := now.Before(c.started.Add(startUp))
	for mailbox, o := range outcomes {
		if _, listed := p.destinations[mailbox]; !listed {
			for _, text := range o.errors {
				in.problems = append(in.problems, mailbox+": "+text)
			}
			for _, text := range o.leaving {
				in.leaving = append(in.leaving, mailbox+": "+text)
			}
			if o.heldBack > 0 {
				in.heldBack = append(in.heldBack, mailbox)
			}
		}
	}
	if p.deleting {
		left, _ := c.left(p)
		for _, r := range left {
			in.left = append(in.left, r.String())
		}
		return in, true
	}
	in.objects = p.desired.Len()
	for _, name := range slices.Sorted(maps.Keys(p.destinations)) {
		s := site{name: name, outcome: outcomes[name], wants: p.desired.Wants, excluded: c.config.Excluded}
		s.known = s.desired == p.desired
		owner, sure := c.owner(name)
		switch {
		case owner != nil:
			s.known = s.known && !owner.outdated(p, name, s.properties)
			s.reports = owner.reports.now()
			s.verdict = func(ref objref.Ref) (health.Verdict, bool) { return owner.reports.of(name, ref) }
			s.missed = func(ref objref.Ref, applied time.Time) time.Time {
				return missingBefore.missed(in.missing, copyKey{name, ref}, applied, now, starting)
			}
			s.unseen = owner.expected.unmet(Key{Binding: p.name, Mailbox: name}, owner.store.of(p.uid, name), now)
			// Looked up anew: a delivery may have met its expectation with newer works than those.
			for _, work := range owner.store.of(p.uid, name) {
				s.works = append(s.works, workReport{work, owner.retries.seen(work.UID, now)})
			}
		case sure:
			s.problem = "is not an accepted cluster of any inventory space"
		}
		in.sites = append(in.sites, s)
	}
	return in, true
}

// decideStatus says what the status of a Binding is. Times of conditions move only when the conditions do.
func decideStatus(old *controlv1alpha1.BindingStatus, in situation) (controlv1alpha1.BindingStatus, verdict) {
	status := controlv1alpha1.BindingStatus{
		ObservedGeneration: in.generation,
		Conditions:         slices.Clone(old.Conditions),
	}
	v := judge(in)
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
	status.Errors = bound(v.errors)
	status.Problems, status.Rollup = v.problems, v.rollup
	if in.deleting {
		status.Rollup = old.Rollup // what it was, while it goes
	}
	return status, v
}
