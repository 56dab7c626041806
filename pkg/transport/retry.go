package transport

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
)

const (
	// firstNudge is how long after a failure that passes its work is nudged; the time doubles up to lastNudge.
	firstNudge = 500 * time.Millisecond
	lastNudge  = time.Minute
	// pendingFor is how long a failure that passes is no error: a Namespace may come with another Binding, or from somewhere
	// else.
	pendingFor = 30 * time.Second
)

// retries remember the works in which a cluster failed for a reason that passes. An agent of a cluster may look again only
// after many minutes: OCM's backs off to 1,000 s, and takes a Namespace that is still terminating for applied.
type retries struct {
	mu    sync.Mutex
	works map[types.UID]attempts
}

type attempts struct {
	since time.Time // of the first failure
	count int
	next  time.Time
}

// note notes that a work fails, or does no more. It returns when the work is to be nudged.
func (r *retries) note(uid types.UID, failing bool, now time.Time) (next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !failing {
		delete(r.works, uid)
		return time.Time{}
	}
	a, ok := r.works[uid]
	if !ok {
		if r.works == nil {
			r.works = map[types.UID]attempts{}
		}
		a = attempts{since: now, next: now.Add(firstNudge)}
		r.works[uid] = a
	}
	return a.next
}

// nudged notes that a work was nudged.
func (r *retries) nudged(uid types.UID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.works[uid]; ok {
		a.count++
		a.next = now.Add(min(firstNudge<<min(a.count, 16), lastNudge))
		r.works[uid] = a
	}
}

// seen returns since when a work is known to fail, as far as we have seen it; now if it is new to us.
func (r *retries) seen(uid types.UID, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.works[uid]; ok {
		return a.since
	}
	return now
}

// patience returns for how long a failure is no error yet: those that pass are none for a while. The time is that by the clock
// of the cluster, which also a restart of ours does not change, but at most the time that we have seen: clocks differ.
func (w *workReport) patience(item *plan.Item, now time.Time) time.Duration {
	if !passing(item) {
		return 0
	}
	return max(0, min(time.Unix(item.Since, 0).Add(pendingFor).Sub(now), w.seen.Add(pendingFor).Sub(now)))
}

// retry nudges the works that are due. A work that failed because of a Namespace or kind is nudged together with the works
// of the first wave that hold it: the agent must find out first that what it once applied is gone.
func (s *space) retry(ctx context.Context, key Key, p *placement, works []*plan.Work) (result, error) {
	now := s.clock.Now()
	var wake time.Time
	var due []*plan.Work
	for _, work := range works {
		failing := !work.Deleting && slices.ContainsFunc(work.Items, func(item plan.Item) bool {
			return item.State == plan.Failed && passing(&item)
		})
		next := s.retries.note(work.UID, failing, now)
		switch {
		case !failing:
		case next.After(now):
			if wake.IsZero() || next.Before(wake) {
				wake = next
			}
		default:
			due = append(due, work)
		}
	}
	if len(due) == 0 {
		if wake.IsZero() {
			return result{}, nil
		}
		return result{after: wake.Sub(now)}, nil
	}
	var actions []plan.Action
	for _, work := range append(providers(works, due), due...) {
		actions = append(actions, plan.NudgeOf(work, plan.ReasonRetry))
	}
	_, stale, err := s.do(ctx, key, p, actions)
	for _, work := range due {
		s.retries.nudged(work.UID, now)
	}
	if stale && err == nil {
		err = ErrStale
	}
	// The next look comes with the answer of the cluster; without one, with the next nudge.
	return result{after: firstNudge}, err
}

// providers returns the works of the first wave that hold a Namespace of an object that failed, and are not due themselves.
func providers(works, due []*plan.Work) []*plan.Work {
	needed := map[objref.Ref]bool{}
	for _, work := range due {
		for i := range work.Items {
			if item := &work.Items[i]; item.State == plan.Failed && item.Ref.Namespace != "" {
				needed[objref.Ref{Resource: "namespaces", Name: item.Ref.Namespace}] = true
			}
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
