package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/writer"
)

// Config is what a Controller is made of. All is required.
type Config struct {
	// Index has the Placements to deliver.
	Index *placement.Index
	// Bindings is the queue of the Bindings that must be gathered again, Statuses that of the
	// Bindings whose status may have changed.
	Bindings, Statuses placement.Queue
	// ITSes are the inventory and transport spaces.
	ITSes []plugin.ITS
	// WDS removes the finalizers of Bindings.
	WDS *writer.Writer
	// Limits bound the works.
	Limits packing.Limits
	// Concurrency is the number of writes under way at once in each ITS.
	Concurrency int
	Clock       clock.WithTicker
}

// Key is what a delivery queue works on: one Binding at one destination.
type Key struct {
	Binding string
	Mailbox string
}

// Controller delivers Placements. Make one with New, and Run it once.
type Controller struct {
	config     Config
	fleet      fleet
	deliverers []*deliverer
	outcomes   *outcomes
	revisions  *revisions
	expansions *expansions
	// removals are Bindings that are being deleted and may be gone from all mailboxes.
	removals *worker.Queue[string]
	orphans  *worker.Queue[orphan]
	// bindingsSynced is closed when all Bindings that existed at the start are known.
	bindingsSynced chan struct{}
}

var (
	_ placement.Consumer  = (*Controller)(nil)
	_ placement.Mailboxes = (*Controller)(nil)
)

// New returns a Controller that does nothing until Run.
func New(config Config) *Controller {
	metrics.Register(deliverySeconds, orphanedBindings, wecs, wrappedObjects)
	c := &Controller{
		config: config, outcomes: &outcomes{index: config.Index}, revisions: newRevisions(), expansions: newExpansions(),
		bindingsSynced: make(chan struct{}),
	}
	c.removals = worker.New(worker.Config{
		Name: "transport-removals", Clock: config.Clock, MinBackOff: placement.MinBackOff, Quiet: apierrors.IsNotFound,
	}, c.syncRemoval)
	c.orphans = worker.New(worker.Config{Name: "transport-orphans", Clock: config.Clock, MinBackOff: placement.MinBackOff}, c.syncOrphan)
	for _, to := range config.ITSes {
		d := newDeliverer(c, to)
		c.fleet, c.deliverers = append(c.fleet, d.its), append(c.deliverers, d)
	}
	return c
}

// Run delivers until the context ends, or a Plugin returns an error, which it returns. Everything
// that it started has ended then. It writes nothing before leads is closed. If it stands by,
// another process may write until leading is closed: each ITS must show what that wrote first.
func (c *Controller) Run(ctx context.Context, standsBy bool, leading, leads <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	for _, d := range c.deliverers {
		running.Go(func() {
			if err := d.run(ctx, c.config.Concurrency, standsBy, leading, leads); err != nil {
				cancel(err)
			}
		})
	}
	running.Go(func() {
		defer c.removals.ShutDown()
		if await(ctx, leads) {
			c.removals.Run(ctx, min(c.config.Concurrency, 8))
		}
	})
	running.Go(func() {
		defer c.orphans.ShutDown()
		if await(ctx, c.bindingsSynced, leads) { // before that, every work looks orphaned
			c.orphans.Run(ctx, 1)
		}
	})
	<-ctx.Done()
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// await blocks until all channels are closed. It returns false if the context ends before.
func await(ctx context.Context, channels ...<-chan struct{}) bool {
	for _, closed := range channels {
		select {
		case <-closed:
		case <-ctx.Done():
			return false
		}
	}
	return ctx.Err() == nil
}

// CaughtUp blocks until all ITSes show what the last leader wrote, or the context ends.
func (c *Controller) CaughtUp(ctx context.Context) {
	for _, d := range c.deliverers {
		await(ctx, d.caughtUp)
	}
}

// Ready returns an error that names an ITS that has not reported all works and destinations yet,
// nil if all have.
func (c *Controller) Ready() error {
	for _, i := range c.fleet {
		if !i.store.synced.Load() {
			return fmt.Errorf("space %s is not synced", i.name)
		}
	}
	return nil
}

// Delivered implements placement.Mailboxes.
func (c *Controller) Delivered(binding types.UID) (refs map[objref.Ref]struct{}, complete bool) {
	refs = map[objref.Ref]struct{}{}
	complete = c.fleet.delivered(binding, func(ref objref.Ref, withdrawn bool) {
		if !withdrawn {
			refs[ref] = struct{}{}
		}
	})
	return refs, complete
}

// Lacking implements placement.Mailboxes.
func (c *Controller) Lacking(p *placement.Placement) map[objref.Ref]bool { return c.fleet.lacking(p) }

// OnBinding implements placement.Consumer.
func (c *Controller) OnBinding(uid types.UID) {
	for _, i := range c.fleet {
		c.orphans.Add(orphan{i, uid})
	}
}

// OnBindingsSynced implements placement.Consumer.
func (c *Controller) OnBindingsSynced() { close(c.bindingsSynced) }

// OnPlacement implements placement.Consumer.
func (c *Controller) OnPlacement(name string, before, after *placement.Placement) {
	c.outcomes.prune(name, before, after)
	c.enqueueRequired(before, after)
	switch {
	case after == nil:
		c.enqueueNeighbors(before, &placement.Placement{Name: name})
		c.config.Statuses.Add(name)
	case after.Deleting:
		if before != after {
			c.fleet.enqueueAll(after)
			c.enqueueNeighbors(before, after)
		}
		c.removals.Add(name)
	case before == nil || before.Desired != after.Desired:
		c.fleet.enqueueAll(after)
		c.enqueueNeighbors(before, after)
		if len(after.Destinations) == 0 {
			c.config.Statuses.Add(name)
		}
	default:
		c.config.Statuses.Add(name)
	}
}

// enqueueRequired enqueues the Bindings that keep something at the destinations of a Binding, which
// may not need it any more.
func (c *Controller) enqueueRequired(placements ...*placement.Placement) {
	for _, p := range placements {
		if p == nil {
			continue
		}
		for mailbox := range p.Destinations {
			for _, d := range c.deliverers {
				d.enqueueRequired(mailbox)
			}
		}
	}
}

// enqueueNeighbors enqueues other Bindings that list objects of one that changed: at the
// destinations of both, if something changed from which their options, or what they hand over, may
// follow.
func (c *Controller) enqueueNeighbors(before, after *placement.Placement) {
	before = cmp.Or(before, &placement.Placement{})
	moved := before.Deleting != after.Deleting || !maps.Equal(before.Destinations, after.Destinations)
	neighbors := map[*placement.Placement]bool{}
	c.config.Index.View(func(view placement.View) {
		near := view.AtAny(before.Destinations, after.Destinations)
		add := func(ref objref.Ref) {
			for name := range near.Listing(ref) {
				if p := view.Get(name); p != nil && name != before.Name && name != after.Name {
					neighbors[p] = true
				}
			}
		}
		for ref, is := range after.Objects {
			was, listed := before.Objects[ref]
			if moved || !listed || was.Options != is.Options || was.Known != is.Known {
				add(ref)
			}
		}
		for ref := range before.Objects {
			if _, listed := after.Objects[ref]; !listed {
				add(ref)
			}
		}
	})
	for p := range neighbors {
		for mailbox := range p.Destinations {
			if before.Lists(mailbox) || after.Lists(mailbox) {
				c.fleet.enqueue(p, mailbox)
			}
		}
	}
}
