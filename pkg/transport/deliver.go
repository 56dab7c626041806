package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/logging"
)

// space delivers to one inventory and transport space.
type space struct {
	*Controller
	name      string
	connect   func(context.Context) (Plugin, error)
	plugin    Plugin // set before the workers start
	store     *store
	creations creations
	expected  expectations
	written   writings
	fights    fights
	retries   retries
	reports   reports
	queue     workqueue.TypedRateLimitingInterface[Key]
	synced    chan struct{}
}

func newSpace(c *Controller, s Space) *space {
	return &space{
		Controller: c,
		name:       s.Name,
		connect:    s.Connect,
		store:      newStore(),
		queue:      newQueue[Key](c.clock, "transport-delivery-"+s.Name),
		synced:     make(chan struct{}),
	}
}

// outcome is what came of the last delivery of a Binding to one destination.
type outcome struct {
	// desired is what was delivered, or was to be.
	desired *plan.Desired
	// properties are those of the destination that templates were expanded with.
	properties *customize.Properties
	errors     []string
	waiting    []plan.Wait
	// tooLarge are objects that fit into no work; the same for all destinations.
	tooLarge []objref.Ref
	// claims are objects that other WDSes deliver, disputes those that they want to.
	claims, disputes []string
	// heldBack counts objects that are held and should be otherwise.
	heldBack int
	// leaving are objects that are being handed over.
	leaving []string
	// removed is the placement, of a Binding that is being deleted, that the works were tried to be taken out for.
	removed *placement
}

// lingers tells whether there is something to say of a destination, though it is not listed any more.
func (o *outcome) lingers() bool { return len(o.errors)+len(o.leaving)+o.heldBack > 0 }

func (s *space) run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), logging.Space, s.name))
	plugin, err := s.connect(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("connect to space %s: %w", s.name, err)
	}
	s.plugin = plugin
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		// A Binding that is not known yet must not look like one that is gone, nor a mailbox like an empty one.
		if s.waitSynced(ctx) {
			for range s.config.Concurrency {
				running.Go(func() { work(ctx, s.queue, s.deliver) })
			}
		}
	})
	if err := plugin.Run(ctx, s); err != nil {
		return fmt.Errorf("space %s: %w", s.name, err)
	}
	return nil
}

// waitSynced waits until the plugin has told everything; it returns false if the context ends before.
func (s *space) waitSynced(ctx context.Context) bool {
	select {
	case <-s.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// OnWork implements Handler.
func (s *space) OnWork(before, after *plan.Work) {
	s.store.setWork(before, after)
	s.onForeign(before, after)
	if before != nil && before.Foreign != (plan.WDS{}) {
		before = nil
	}
	if after != nil && after.Foreign != (plan.WDS{}) {
		after = nil
	}
	if before != nil || after != nil {
		s.onRivals(before, after)
	}
	wrappedObjects.Add(step(before != nil, after != nil))
	if after != nil {
		s.creations.told(after)
	}
	for _, work := range []*plan.Work{before, after} {
		if work == nil {
			continue
		}
		s.queue.Add(Key{Binding: work.Binding, Mailbox: work.Mailbox})
		s.status.Add(work.Binding)
		if before == nil || after == nil || before.BindingUID != after.BindingUID {
			s.orphans.queue.Add(orphan{s, work.BindingUID})
		}
	}
	if before != nil && after == nil {
		s.retries.note(before.UID, false, time.Time{})
		s.written.forget(before.UID)
		if p := s.placementOf(before.Binding); p != nil && p.deleting {
			s.bindings.Add(before.Binding)
		}
	}
}

// OnDestination implements Handler. A cluster that comes, is let in, or goes concerns the Bindings that list it; other properties
// concern those with templates.
func (s *space) OnDestination(name string, d *Destination) {
	before := s.store.setDestination(name, d)
	wecs.Add(step(before != nil, d != nil))
	admission := before == nil || d == nil || !before.sameAdmission(*d)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.placements {
		if p.deleting {
			s.bindings.Add(p.name)
		}
		key := Key{Binding: p.name, Mailbox: name}
		switch _, listed := p.destinations[name]; {
		case listed && (admission || len(p.templates) > 0):
			for _, other := range s.spaces {
				other.queue.Add(key)
			}
			s.status.Add(p.name)
		case !listed && admission && s.store.has(p.uid, name):
			s.queue.Add(key) // what is on its way out there has nobody to be handed over to any more, or somebody again
		}
	}
}

// OnSynced implements Handler: now the mailboxes can be compared with what they should hold.
func (s *space) OnSynced() {
	s.store.setSynced()
	close(s.synced)
	s.mu.Lock()
	placements := make([]*placement, 0, len(s.placements))
	for _, p := range s.placements {
		placements = append(placements, p)
	}
	s.mu.Unlock()
	for _, uid := range s.store.bindings() {
		s.orphans.queue.Add(orphan{s, uid})
	}
	for _, p := range placements {
		s.deliverEverywhere(p)
		s.status.Add(p.name)
		if p.deleting || p.provisional {
			s.bindings.Add(p.name)
		}
	}
}

// deliver brings one mailbox to what a Binding asks of it.
func (s *space) deliver(ctx context.Context, key Key) (result, error) {
	p := s.placementOf(key.Binding)
	if p == nil {
		return result{}, nil // not known: nothing is to be done
	}
	if p.provisional {
		s.status.Add(key.Binding)
		return result{}, nil // it is gathered again when all is known that was delivered of it
	}
	works := s.store.of(p.uid, key.Mailbox)
	if s.expected.unmet(key, works, s.clock.Now()) {
		return result{after: patience}, nil // its event comes first
	}
	site := s.site(p, key.Mailbox, works)
	_, listed := p.destinations[key.Mailbox]
	if p.deleting || !listed {
		s.fights.over(key, nil, nil)
		built := plan.Remove(site)
		texts, _, err := s.do(ctx, key, p, built.Actions)
		if err == nil {
			err = s.nudgeOthers(ctx, built.Outdated)
		}
		leaving, failures := leavingTexts(built.Leaving)
		s.record(key, outcome{errors: slices.Concat(texts, failures), heldBack: built.HeldBack, leaving: leaving, removed: p})
		return again(site), err
	}
	if owner, _ := s.owner(key.Mailbox); owner != s {
		// Not ours, or not any more. What is in the mailbox stays: the Binding still lists the cluster.
		s.status.Add(key.Binding)
		return result{}, nil
	}

	w := s.wishAt(p, key.Mailbox)
	built := plan.Build(share(w.desired, site), site)
	actions, futile := s.written.sift(built.Actions)
	for _, work := range s.fights.over(key, built.Conflicts, works) {
		actions = append(actions, plan.NudgeOf(work, plan.ReasonRetry))
	}
	texts, stale, err := s.do(ctx, key, p, actions)
	if err == nil && !stale {
		err = s.nudgeOthers(ctx, built.Outdated)
	}
	leaving, failures := leavingTexts(built.Leaving)
	texts = slices.Concat(w.problems, texts, futile, failures)
	claims, disputes := conflictTexts(built.Conflicts)
	if stale && err == nil {
		err = ErrStale
	}
	s.record(key, outcome{
		desired: p.desired, properties: w.properties, errors: texts, waiting: built.Waiting, tooLarge: built.TooLarge,
		claims: claims, disputes: disputes, heldBack: built.HeldBack, leaving: leaving,
	})
	if err != nil {
		return result{}, err
	}
	if len(actions) > 0 {
		return again(site), nil // what comes of them is told by an event
	}
	r, err := s.retry(ctx, key, p, works)
	if after := again(site).after; after > 0 && (r.after == 0 || after < r.after) {
		r.after = after
	}
	return r, err
}

// again says when to look at a site again whose objects wait for another Binding: what comes of that is told to the other.
func again(site *plan.Site) result {
	if len(site.Awaited) == 0 {
		return result{}
	}
	return result{after: time.Second}
}

// timeout bounds a write. A space that takes longer is in trouble; the write is tried again.
const timeout = 30 * time.Second

// do carries out the actions one by one. One that is refused does not keep the others from being tried; a space that does not
// answer does. It returns what to tell the user.
func (s *space) do(ctx context.Context, key Key, p *placement, actions []plan.Action) (texts []string, stale bool, err error) {
	origin := Origin{Binding: p.name, BindingUID: p.uid}
	var failures []error
	for i := range actions {
		action := &actions[i]
		if action.Verb == plan.Create && !s.creating(p, action) {
			stale = true
			break
		}
		actionCtx, cancel := context.WithTimeout(ctx, timeout)
		receipt, err := s.plugin.Do(actionCtx, origin, action)
		cancel()
		if action.Verb == plan.Create {
			s.creations.end(p.uid, action, err, s.clock.Now())
		}
		switch {
		case err == nil:
			s.expected.expect(key, action, receipt, s.clock.Now())
			s.written.note(receipt, action)
			deliverySeconds.WithLabelValues(s.name).Observe(s.clock.Since(p.decided).Seconds())
			klog.FromContext(ctx).V(2).Info("Wrote", "action", action.String())
			continue
		case errors.Is(err, ErrStale):
			stale = true
			continue
		}
		texts = append(texts, writeError(action, err))
		failures = append(failures, errors.New(texts[len(texts)-1]))
		var answered apierrors.APIStatus
		if !errors.As(err, &answered) || apierrors.IsTooManyRequests(err) {
			break
		}
	}
	slices.Sort(texts)
	return texts, stale, errors.Join(failures...)
}

// record notes the outcome of a delivery for the status. Of a destination that is no longer listed only what keeps works there
// is kept.
func (s *space) record(key Key, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.placements[key.Binding]
	if p == nil {
		return
	}
	if p.deleting {
		s.bindings.Add(key.Binding) // it may be released now
	}
	if _, listed := p.destinations[key.Mailbox]; !listed && !p.deleting && !o.lingers() {
		delete(s.outcomes[key.Binding], key.Mailbox)
		s.status.Add(key.Binding)
		return
	}
	if s.outcomes[key.Binding] == nil {
		s.outcomes[key.Binding] = map[string]outcome{}
	}
	s.outcomes[key.Binding][key.Mailbox] = o
	s.status.Add(key.Binding)
}
