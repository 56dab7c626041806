package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/packing"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/feedback"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// catchUpFor is how long the mailboxes are waited for when this process becomes the leader. Without
// them, all bound objects are read again.
const catchUpFor = 5 * time.Second

// Config is what a Controller is made of.
type Config struct {
	// WDS is the WDS. The Controller runs its informers.
	placement.WDS
	// ITSes are the inventory and transport spaces.
	ITSes []plugin.ITS
	// Limits bound the works.
	Limits packing.Limits
	// Concurrency is the number of writes under way at once in each ITS, and of Bindings that are
	// gathered at once.
	Concurrency int
	// Excluded are the kinds that agents do not report, besides those without a status. Their
	// reports are not missed.
	Excluded corestatus.Excluded
	// ManagementNamespaces are the namespaces of Open Cluster Management to which objects may be
	// delivered; none if it is empty.
	ManagementNamespaces []string
	// Clock is the clock of everything; nil is the real one.
	Clock clock.WithTicker
}

func (c *Config) validate() error {
	switch {
	case c.Bindings == nil || c.CustomTransforms == nil || c.Metadata == nil || c.Objects == nil || c.Versions == nil || c.Writer == nil:
		return errors.New("transport: Bindings, CustomTransforms, Metadata, Objects, Versions and Writer are required")
	case len(c.ITSes) == 0:
		return errors.New("transport: at least one ITS is required")
	case c.Concurrency < 1:
		return fmt.Errorf("transport: concurrency must be at least 1, is %d", c.Concurrency)
	case c.Limits.Count < 1 || c.Limits.Bytes < 1:
		return fmt.Errorf("transport: limits must be at least 1, are %+v", c.Limits)
	}
	return nil
}

// Controller carries out Bindings. Make one with New, and Run it once.
type Controller struct {
	config     Config
	gatherer   *placement.Gatherer
	deliveries *delivery.Controller
	reporter   *feedback.Reporter
	// bindings are to be gathered; statuses are to be written.
	bindings, statuses *worker.Queue[string]
}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	c := &Controller{config: config}
	queue := func(name string) worker.Config {
		return worker.Config{Name: name, Clock: config.Clock, MinBackOff: placement.MinBackOff, Quiet: apierrors.IsNotFound}
	}
	// The queues come first: each of the three packages notifies those before it through them.
	c.bindings = worker.NewNewestFirst(queue("transport-bindings"),
		func(ctx context.Context, name string) (worker.Result, error) { return c.gatherer.Sync(ctx, name) },
		func(name string) uint64 { return c.gatherer.Newest(name) })
	c.statuses = worker.New(queue("transport-status"),
		func(ctx context.Context, name string) (worker.Result, error) { return c.reporter.Sync(ctx, name) })

	if err := config.Bindings.AddIndexers(placement.Indexers()); err != nil {
		return nil, fmt.Errorf("watch Bindings: %w", err)
	}
	index := placement.NewIndex(config.Bindings.GetIndexer())
	c.deliveries = delivery.New(delivery.Config{
		Index: index, Bindings: c.bindings, Statuses: c.statuses, ITSes: config.ITSes, WDS: config.Writer, Limits: config.Limits,
		Concurrency: config.Concurrency, Clock: config.Clock,
	})
	var err error
	c.gatherer, err = placement.New(placement.Config{
		WDS: config.WDS, Index: index, Queue: c.bindings, Consumer: c.deliveries, Mailboxes: c.deliveries, Limits: config.Limits,
		ManagementNamespaces: config.ManagementNamespaces, Clock: config.Clock,
	})
	if err != nil {
		return nil, err
	}
	c.reporter, err = feedback.New(feedback.Config{
		Index: index, Deliveries: c.deliveries, Queue: c.statuses, Bindings: config.Bindings, WDS: config.Writer, Excluded: config.Excluded,
		Clock: config.Clock,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run carries out Bindings until the context ends, or a Plugin returns an error, which it returns.
// Everything that it started has ended then. Until leading is closed, it reads all that it needs,
// and writes nothing.
func (c *Controller) Run(ctx context.Context, leading <-chan struct{}) error {
	standsBy := true
	select {
	case <-leading:
		standsBy = false
	default:
	}
	if !standsBy {
		c.gatherer.Lead() // before a CustomTransform is synced, which would write no status
	}
	// leads is closed when what stood by is as new as what the last leader wrote.
	leads := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { c.config.Bindings.RunWithContext(ctx) })
	running.Go(func() { c.config.CustomTransforms.RunWithContext(ctx) })
	running.Go(func() { c.gatherer.Run(ctx) })
	running.Go(func() {
		defer c.bindings.ShutDown()
		defer c.statuses.ShutDown()
		// What CustomTransforms remove from an object must be known before it is delivered, and
		// which other Bindings list it.
		if !cache.WaitForCacheSync(ctx.Done(), c.config.Bindings.HasSynced, c.config.CustomTransforms.HasSynced) {
			return
		}
		c.gatherer.ListAll()
		if !standsBy {
			c.reporter.Start()
			close(leads)
		}
		running.Go(func() { c.bindings.Run(ctx, min(c.config.Concurrency, 8)) })
		if standsBy {
			select {
			case <-leading:
			case <-ctx.Done():
				return
			}
			// An ITS that does not answer delays the others no longer than this.
			caughtUp, stop := context.WithTimeout(ctx, catchUpFor)
			c.deliveries.CaughtUp(caughtUp)
			stop()
			if err := c.gatherer.TakeOver(ctx); err != nil {
				return // the context has ended
			}
			c.reporter.Start()
			close(leads)
		}
		c.statuses.Run(ctx, 2)
	})
	return c.deliveries.Run(ctx, standsBy, leading, leads)
}

// Ready returns an error that says what is not known yet, including an ITS that does not answer;
// nil if everything is known.
func (c *Controller) Ready() error {
	if err := c.gatherer.Ready(); err != nil {
		return err
	}
	return c.deliveries.Ready()
}
