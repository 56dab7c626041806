package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
)

// retry nudges the works that are due: those that failed, after a while, and those that are
// outdated, at once. A work that failed because of a Namespace is nudged together with the works of
// the first wave that hold the Namespace: the agent must find out first that what it once applied
// is gone.
func (d *deliverer) retry(ctx context.Context, key Key, p *placement.Placement, works []*plan.Work) (worker.Result, error) {
	now := d.controller.config.Clock.Now()
	var wait time.Duration
	var due, outdated []*plan.Work
	for _, work := range works {
		failing := !work.Deleting && slices.ContainsFunc(work.Items, func(item plan.Item) bool {
			return item.State == plan.Failed && item.Transient() || item.Awaited() && !item.Missing
		})
		next, changed := d.its.retries.note(work.UID, failing, now)
		if changed {
			d.controller.revisions.changed(p.UID, key.Mailbox) // since when the work fails
		}
		switch {
		case !work.Deleting && d.its.retries.takeOutdated(work.UID):
			outdated = append(outdated, work)
		case !failing:
		case next.After(now):
			wait = Sooner(wait, next.Sub(now))
		default:
			due = append(due, work)
		}
	}
	if len(due)+len(outdated) == 0 {
		return worker.Result{After: wait}, nil
	}
	var actions []plan.Action
	for _, work := range append(providers(works, due), due...) {
		actions = append(actions, plan.NudgeOf(work, plan.ReasonRetry))
	}
	for _, work := range outdated {
		if !slices.ContainsFunc(actions, func(a plan.Action) bool { return a.UID == work.UID }) {
			actions = append(actions, plan.NudgeOf(work, plan.ReasonMove))
		}
	}
	_, err := d.do(ctx, key, p, actions)
	if err != nil {
		d.its.retries.outdate(outdated)
	}
	for _, work := range due {
		d.its.retries.nudged(work.UID, now)
	}
	// The next sync comes with the report of the cluster; without one, with the next nudge.
	return worker.Result{After: firstNudge}, err
}

// Sooner returns the shorter one of two times to wait; zero is forever.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// providers returns the works of the first wave that hold a Namespace of an object that failed, and
// are not due themselves.
func providers(works, due []*plan.Work) []*plan.Work {
	needed := map[objref.Ref]bool{}
	for _, item := range plan.Items(due) {
		if item.State == plan.Failed && item.Ref.Namespace != "" {
			needed[objref.Ref{Resource: "namespaces", Name: item.Ref.Namespace}] = true
		}
	}
	var found []*plan.Work
	for _, work := range works {
		if work.Wave != packing.WaveFirst || work.Deleting || slices.Contains(due, work) {
			continue
		}
		if slices.ContainsFunc(work.Items, func(item plan.Item) bool { return needed[item.Ref] }) {
			found = append(found, work)
		}
	}
	return found
}

// outdate records that the cluster may hold older content than these works have, and that they must
// be nudged. The delivery of each does that: only one delivery writes to a work. If that is lost,
// the agent's resync heals it some minutes later.
func (d *deliverer) outdate(works []*plan.Work) {
	d.its.retries.outdate(works)
	for _, work := range works {
		d.its.queue.Add(Key{Binding: work.Binding, Mailbox: work.Mailbox})
	}
}

const (
	// firstNudge is how long after a transient failure its work is nudged; the time doubles up to
	// lastNudge.
	firstNudge = 500 * time.Millisecond
	lastNudge  = time.Minute
)

// retries are the works with a transient failure. Without a nudge the agent of a cluster may apply
// them again only after many minutes: OCM's backs off to 1,000 s, and takes a Namespace that is
// still terminating for applied. It is safe for concurrent use.
type retries struct {
	mu    sync.Mutex
	works map[types.UID]attempts
	// outdated are the works whose content another work may have overwritten in the cluster.
	outdated map[types.UID]bool
}

type attempts struct {
	since time.Time // of the first failure
	count int
	next  time.Time
}

// outdate records works that must be nudged.
func (r *retries) outdate(works []*plan.Work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, work := range works {
		if r.outdated == nil {
			r.outdated = map[types.UID]bool{}
		}
		r.outdated[work.UID] = true
	}
}

// takeOutdated reports whether a work is outdated, and forgets that: the caller nudges it now. A
// work that becomes outdated after that must be nudged again.
func (r *retries) takeOutdated(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	outdated := r.outdated[uid]
	delete(r.outdated, uid)
	return outdated
}

// forget removes a work that is gone.
func (r *retries) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.works, uid)
	delete(r.outdated, uid)
}

// note records whether a work fails, and reports whether that is a change. It returns when a work
// that fails is to be nudged.
func (r *retries) note(uid types.UID, failing bool, now time.Time) (next time.Time, changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, known := r.works[uid]
	if !failing {
		delete(r.works, uid)
		return time.Time{}, known
	}
	if !known {
		if r.works == nil {
			r.works = map[types.UID]attempts{}
		}
		a = attempts{since: now, next: now.Add(firstNudge)}
		r.works[uid] = a
	}
	return a.next, !known
}

// nudged records that a work was nudged.
func (r *retries) nudged(uid types.UID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.works[uid]; ok {
		a.count++
		a.next = now.Add(min(firstNudge<<min(a.count, 16), lastNudge))
		r.works[uid] = a
	}
}

// since returns since when this process has seen a work fail; now if it has not.
func (r *retries) since(uid types.UID, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.works[uid]; ok {
		return a.since
	}
	return now
}
