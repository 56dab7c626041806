package combined

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/reports"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
)

// Name of the controller, in logs and metrics.
const Name = "combined"

// between is the least time between two evaluations of one pair: under churn changes gather for so long.
const between = 500 * time.Millisecond

// believed is how long a CombinedStatus that was written and is not seen is believed to be there. The watch shows it within
// milliseconds, unless it was interrupted just then and somebody deleted the CombinedStatus meanwhile: of that no event tells.
const believed = 10 * time.Second

// Collections tells what policies ask. *match.Index is one. It does not block.
type Collections interface {
	Collection(pair match.Pair) match.Collection
	ClusterLabels(cluster string) (map[string]string, bool)
}

// Reports tells what the clusters say. *reports.Reader is one. It does not block.
type Reports interface {
	Get(ref objref.Ref, cluster string) (*reports.Report, bool)
	Version(ref objref.Ref, cluster string) (string, bool)
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Collections tells what policies ask. Its owner has the Controller observe it.
	Collections Collections
	// Policies returns the UID of a BindingPolicy; false if there is none.
	Policies func(name string) (types.UID, bool)
	// Resource returns the resource as the WDS is watched; Serves tells whether the WDS serves it at all, and whether that is known.
	Resource func(gr schema.GroupResource) (dynwatch.Resource, bool)
	Serves   func(group *string, resource string) (serves, known bool)
	// Reports tells what the clusters say. Its owner runs it, and adds the Controller to its listeners.
	Reports Reports
	// Collectors are the StatusCollectors. Their owner runs them.
	Collectors *Collectors
	// CombinedStatuses is the informer that NewInformer returns. The Controller runs it.
	CombinedStatuses cache.SharedIndexInformer
	// Client reads single objects of the WDS.
	Client dynamic.Interface
	// Writer writes to the WDS.
	Writer Writer
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Controller keeps CombinedStatuses. It is told of changes through OnCollections, OnClusterLabels and OnKnown
// (match.CollectionObserver), through OnReport and OnReportsRead (reports.Listener) and by Collectors; all may call it before and
// while it runs.
type Controller struct {
	config     Config
	registered cache.ResourceEventHandlerRegistration
	queue      workqueue.TypedRateLimitingInterface[match.Pair]

	mu sync.Mutex
	// states are the pairs of which something is asked, byRef the same by their objects.
	states map[match.Pair]*state
	byRef  map[objref.Ref]map[string]struct{}
	// waiting are pairs of which something was not known when they were looked at last.
	waiting map[match.Pair]struct{}
}

// state is what is remembered of a pair. All but table, object and name is guarded by the Controller's mutex; those belong to the
// worker that has the pair.
type state struct {
	table  combine.Table
	object object
	// name is that of its CombinedStatus.
	name string

	// collectors are those that were asked for when it was looked at last, inventory tells whether one of them looks at
	// inventory, and clusters where the object went.
	collectors []string
	inventory  bool
	clusters   []string
	// worked is when it was evaluated or written last.
	worked time.Time
	// since is when the oldest report came in that was not dealt with.
	since time.Time
	// wrote is the version that was written last, until the cache shows it; behind tells that the cache was found behind it.
	wrote   string
	wroteAt time.Time
	behind  bool
}

// object is an object of the WDS as expressions see it.
type object struct {
	version string
	content map[string]any
}

var (
	_ match.CollectionObserver = &Controller{}
	_ reports.Listener         = &Controller{}
)

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Collections == nil || config.Policies == nil || config.Resource == nil || config.Serves == nil || config.Reports == nil ||
		config.Collectors == nil || config.CombinedStatuses == nil || config.Client == nil || config.Writer == nil || config.Clock == nil {
		return nil, errors.New("combined: all fields of Config are required")
	}
	c := &Controller{
		config: config,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[match.Pair](5*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[match.Pair]{Name: Name, Clock: config.Clock}),
		states:  map[match.Pair]*state{},
		byRef:   map[objref.Ref]map[string]struct{}{},
		waiting: map[match.Pair]struct{}{},
	}
	config.Collectors.OnChange(c.onCollector)
	var err error
	c.registered, err = config.CombinedStatuses.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onStored(obj) },
		UpdateFunc: c.onStoredChanged,
		DeleteFunc: c.onStoredDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch CombinedStatuses: %w", err)
	}
	return c, nil
}

// Run works until the context ends, and waits for its workers. It starts at once: what is not known yet is left alone.
func (c *Controller) Run(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx).WithValues(logging.Controller, Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "workers", workers)
	defer logger.Info("Ended")

	var running sync.WaitGroup
	running.Go(func() { c.config.CombinedStatuses.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), c.registered.HasSynced, c.config.Collectors.Synced) {
			c.wake(schema.GroupResource{})
		}
	})
	for range workers {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	running.Wait()
	return nil
}

// Ready tells what was not read yet, nil if nothing.
func (c *Controller) Ready() error {
	if !c.registered.HasSynced() || !c.config.Collectors.Synced() {
		return errors.New("StatusCollectors and CombinedStatuses not read yet")
	}
	return nil
}

// OnCollections implements match.CollectionObserver.
func (c *Controller) OnCollections(pairs []match.Pair) { c.enqueue(pairs...) }

// OnKnown implements match.CollectionObserver.
func (c *Controller) OnKnown(gr schema.GroupResource) { c.wake(gr) }

// OnClusterLabels implements match.CollectionObserver. It costs a look at all pairs.
func (c *Controller) OnClusterLabels(cluster string) {
	c.enqueue(c.find(func(s *state) bool {
		_, found := slices.BinarySearch(s.clusters, cluster)
		return s.inventory && found
	})...)
}

// OnReport implements reports.Listener.
func (c *Controller) OnReport(key reports.Key) {
	c.mu.Lock()
	pairs := make([]match.Pair, 0, len(c.byRef[key.Ref]))
	for policy := range c.byRef[key.Ref] {
		pair := match.Pair{Ref: key.Ref, Policy: policy}
		if s := c.states[pair]; s.since.IsZero() {
			s.since = c.config.Clock.Now()
		}
		pairs = append(pairs, pair)
	}
	c.mu.Unlock()
	c.enqueue(pairs...)
}

// OnReportsRead implements reports.Listener.
func (c *Controller) OnReportsRead() { c.wake(schema.GroupResource{}) }

// OnPolicy is to be called when another BindingPolicy bears the name.
func (c *Controller) OnPolicy(name string) {
	c.mu.Lock()
	var pairs []match.Pair
	for pair := range c.states {
		if pair.Policy == name {
			pairs = append(pairs, pair)
		}
	}
	c.mu.Unlock()
	c.enqueue(pairs...)
}

// onCollector costs a look at all pairs.
func (c *Controller) onCollector(name string) {
	c.enqueue(c.find(func(s *state) bool {
		_, found := slices.BinarySearch(s.collectors, name)
		return found
	})...)
}

func (c *Controller) onStored(obj any) {
	kept, ok := obj.(*stored)
	if !ok {
		return
	}
	if pair, ok := pairOf(kept); ok && !c.isOwnWrite(pair, kept.ResourceVersion) {
		c.enqueue(pair)
	}
}

func (c *Controller) onStoredChanged(before, after any) {
	c.onStored(after)
	old, okOld := before.(*stored)
	current, okCurrent := after.(*stored)
	if !okOld || !okCurrent {
		return
	}
	was, ok := pairOf(old)
	if now, okNow := pairOf(current); ok && (!okNow || was != now) {
		c.enqueue(was) // somebody made it say that it is about something else
	}
}

func (c *Controller) onStoredDeleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if kept, ok := obj.(*stored); ok {
		if pair, ok := pairOf(kept); ok {
			c.mu.Lock()
			if s := c.states[pair]; s != nil {
				s.wrote, s.behind = "", false
			}
			c.mu.Unlock()
			c.enqueue(pair)
		}
	}
}

// isOwnWrite tells whether that is the version that we wrote last, and nobody waits for it.
func (c *Controller) isOwnWrite(pair match.Pair, version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[pair]
	if s == nil || s.wrote != version {
		return false
	}
	s.wrote = ""
	waited := s.behind
	s.behind = false
	return !waited
}

// enqueue has pairs looked at: at once after quiet, otherwise when it is time.
func (c *Controller) enqueue(pairs ...match.Pair) {
	for _, pair := range pairs {
		c.queue.AddAfter(pair, c.wait(pair))
	}
}

// wait returns for how long a pair is not to be looked at.
func (c *Controller) wait(pair match.Pair) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[pair]
	if s == nil || s.worked.IsZero() {
		return 0
	}
	return max(0, between-c.config.Clock.Since(s.worked))
}

func (c *Controller) find(matches func(*state) bool) []match.Pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pairs []match.Pair
	for pair, s := range c.states {
		if matches(s) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// wake looks again at the pairs of that resource, or with none of all, of which something was not known.
func (c *Controller) wake(gr schema.GroupResource) {
	c.mu.Lock()
	pairs := slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	for _, pair := range pairs {
		if gr.Empty() || pair.Ref.GroupResource() == gr {
			c.queue.Add(pair)
		}
	}
}

func (c *Controller) next(ctx context.Context) bool {
	pair, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(pair)
	// What was enqueued while a worker was about to note that it had worked knew of the time before.
	if wait := c.wait(pair); wait > 0 {
		c.queue.AddAfter(pair, wait)
		return true
	}
	logger := klog.FromContext(ctx).WithValues(logging.Object, pair.Ref.String(), logging.BindingPolicy, pair.Policy)
	err := c.sync(klog.NewContext(ctx, logger), pair)
	switch {
	case err == nil:
		c.queue.Forget(pair)
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		// The cache is behind, or the object goes with its namespace, or is gone with it.
		logger.V(4).Info("Not written", logging.Reason, err.Error())
		c.queue.AddRateLimited(pair)
	default:
		logger.Error(err, "Cannot keep CombinedStatus")
		c.queue.AddRateLimited(pair)
	}
	return true
}
