package delivery

import (
	"context"
	"slices"
	"time"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// deliver makes one mailbox hold what a Binding asks of it.
func (d *deliverer) deliver(ctx context.Context, key Key) (result worker.Result, err error) {
	defer d.underWay.begin(key)()
	p := d.controller.config.Index.Get(key.Binding)
	if p == nil {
		return worker.Result{}, nil // not known: nothing may be written
	}
	if p.Provisional {
		d.controller.config.Statuses.Add(key.Binding)
		return worker.Result{}, nil // it is gathered again when all that was delivered of it is known
	}
	all := d.its.store.all(p.UID, key.Mailbox)
	works := slices.DeleteFunc(slices.Clone(all), isRestored)
	now := d.controller.config.Clock.Now()
	if d.its.expected.unmet(key, all, now) {
		return worker.Result{After: patience}, nil // the event of our last write comes first
	}
	if wait, err := d.clarify(ctx, key, all, now); wait || err != nil {
		return worker.Result{After: patience}, err
	}
	defer func() {
		if len(d.underWay.doubted(key, all)) > 0 {
			result.After = Sooner(result.After, patience)
		}
	}()
	removing := p.Deleting || !p.Lists(key.Mailbox)
	desired, outcome := &plan.Desired{}, &Outcome{}
	if !removing {
		desired, outcome.properties, outcome.Errors = d.desiredAt(p, key.Mailbox)
	}
	current := d.current(p, key.Mailbox, desired, works)
	current.Restored = slices.DeleteFunc(slices.Clone(all), isLive) // all is read again at the end
	switch assigned, _ := d.controller.fleet.assigned(key.Mailbox); {
	case removing:
		outcome.removedFor = p
	case current.Passed:
		return d.leave(ctx, key, p, current)
	case assigned != d.its:
		// The cluster belongs to no ITS, or it is not known to which. What is in the mailbox stays:
		// the Binding still lists the cluster.
		d.controller.config.Statuses.Add(key.Binding)
		return worker.Result{}, nil
	default:
		d.left(key, p, "")
		outcome.desired = p.Desired
	}
	desired, err = plan.KeepFormer(desired, works, func(work *plan.Work, ref objref.Ref) (transform.Object, error) {
		readCtx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return d.plugin.Content(readCtx, work, ref)
	})
	if err != nil {
		return worker.Result{}, err
	}
	built := plan.Build(share(desired, current.Owners), current)
	actions := slices.Concat(built.Actions, plan.Retire(current.Restored, desired, current, &built))
	won := d.fights.over(key, built.Conflicts, works)
	var futile []string
	if !removing {
		actions, futile = d.written.sift(actions)
		d.outdate(won)
	}
	texts, err := d.do(ctx, key, p, actions)
	if err == nil {
		d.outdate(built.Outdated)
	}
	var failures []string
	outcome.Leaving, failures = leavingTexts(built.Leaving)
	outcome.Claims, outcome.Disputes = conflictTexts(built.Conflicts)
	d.required.note(key, len(built.Required) > 0)
	outcome.Errors = slices.Concat(outcome.Errors, texts, futile, failures, requiredTexts(built.Required), refusedTexts(works))
	outcome.Waiting, outcome.TooLarge, outcome.HeldBack = built.Waiting, built.TooLarge, built.HeldBack
	d.record(key, outcome)
	if err != nil {
		return worker.Result{}, err
	}
	if removing || len(actions) > 0 {
		return again(&built), nil // the events of the writes come next
	}
	r, err := d.retry(ctx, key, p, works)
	r.After = Sooner(r.After, again(&built).After)
	return r, err
}

// clarify finds out what became of writes of a delivery that were not answered. It reports whether
// the delivery must wait: such a write usually shows at once, and a plan without it would be stale.
func (d *deliverer) clarify(ctx context.Context, key Key, works []*plan.Work, now time.Time) (wait bool, err error) {
	old := false
	for _, doubt := range d.underWay.doubted(key, works) {
		wait = wait || now.Sub(doubt.at) < patience
		old = old || now.Sub(doubt.at) >= unansweredFor
	}
	if wait || !old {
		return wait, nil
	}
	live, err := d.plugin.Works(ctx)
	if err != nil {
		return false, err
	}
	d.underWay.read(key, live, now)
	return false, nil
}

// again returns when to plan again because objects wait for another Binding: only that one is
// notified of what comes of it.
func again(built *plan.Plan) worker.Result {
	if !built.Postponed && !slices.ContainsFunc(built.Leaving, func(h plan.HandOver) bool { return h.Waits }) {
		return worker.Result{}
	}
	return worker.Result{After: time.Second}
}
