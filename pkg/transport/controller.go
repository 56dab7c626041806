package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// Config is what a Controller is made of.
type Config struct {
	// Bindings is the informer on the Bindings of the WDS, not started: the Controller runs it.
	Bindings cache.SharedIndexInformer
	// CustomTransforms is the informer on the CustomTransforms of the WDS, not started: the Controller indexes and runs it.
	CustomTransforms cache.SharedIndexInformer
	// Metadata makes informers on the metadata of objects of the WDS.
	Metadata func(dynwatch.Resource) cache.SharedIndexInformer
	// Objects reads objects of the WDS.
	Objects dynamic.Interface
	// Packages reads packages of the WDS; nil: none are delivered.
	Packages Packages
	// WDS writes to the WDS: finalizers and status of Bindings, status of CustomTransforms.
	WDS *write.Writer
	// Spaces are the inventory and transport spaces.
	Spaces []Space
	// Pipeline is what happens to each object on its way.
	Pipeline transform.Pipeline
	// Limits bound the works.
	Limits packing.Limits
	// Concurrency is the number of writes under way at once in each space, and of Bindings that are gathered at once.
	Concurrency int
	// Excluded are the kinds that agents do not report besides those without a status: nobody misses their reports.
	Excluded corestatus.Excluded
	// Clock tells the time; nil is the real one.
	Clock clock.WithTicker
}

func (c *Config) validate() error {
	switch {
	case c.Bindings == nil || c.CustomTransforms == nil || c.Metadata == nil || c.Objects == nil || c.WDS == nil:
		return errors.New("transport: Bindings, CustomTransforms, Metadata, Objects and WDS are required")
	case len(c.Spaces) == 0:
		return errors.New("transport: at least one space is required")
	case c.Concurrency < 1:
		return fmt.Errorf("transport: concurrency must be at least 1, is %d", c.Concurrency)
	case c.Limits.Count < 1 || c.Limits.Bytes < 1:
		return fmt.Errorf("transport: limits must be at least 1, are %+v", c.Limits)
	}
	return nil
}

// Key is what a delivery queue works on: one Binding at one destination.
type Key struct {
	Binding string
	Mailbox string
}

// Controller carries out Bindings. Make one with New, and Run it once.
type Controller struct {
	config     Config
	clock      clock.WithTicker
	wanted     *dynwatch.Wanted
	watch      *dynwatch.Set
	objects    *objects
	packages   *packages
	templates  *templates
	spaces     []*space
	transforms *customTransforms

	bindings workqueue.TypedRateLimitingInterface[string]
	status   workqueue.TypedRateLimitingInterface[string]

	bindingsTold cache.InformerSynced // all Bindings that were there at the start were told of

	started time.Time // when Run began

	mu         sync.Mutex
	placements map[string]*placement              // what Bindings ask for, by name
	listed     map[objref.Ref]map[string]bool     // the Bindings that list an object, and whether each asks for its status
	listings   map[string]map[objref.Ref]struct{} // the objects that a Binding lists: those of its placement, and those that are read for the next one
	shared     map[objref.Ref]struct{}            // the objects that several Bindings list
	sources    sources
	needs      *needs                        // the resources that Bindings list objects of
	changed    map[string]time.Time          // when the change was seen that a Binding is in its queue for
	outcomes   map[string]map[string]outcome // what came of deliveries, by Binding and mailbox
	published  map[string]publication        // what was last written to the status of Bindings
	unsettled  map[string]time.Time          // since when Bindings have a status that is held back
	missing    map[string]missing            // since when reports are missing, by Binding

	orphans orphans
}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	c := &Controller{
		config:     config,
		templates:  newTemplates(),
		clock:      config.Clock,
		wanted:     dynwatch.NewWanted(),
		bindings:   newQueue[string](config.Clock, "transport-bindings"),
		status:     newQueue[string](config.Clock, "transport-status"),
		placements: map[string]*placement{},
		listed:     map[objref.Ref]map[string]bool{},
		listings:   map[string]map[objref.Ref]struct{}{},
		shared:     map[objref.Ref]struct{}{},
		sources:    sources{by: map[types.UID]string{}},
		needs:      newNeeds(),
		changed:    map[string]time.Time{},
		outcomes:   map[string]map[string]outcome{},
		published:  map[string]publication{},
		unsettled:  map[string]time.Time{},
		missing:    map[string]missing{},
		orphans: orphans{
			queue: newQueue[orphan](config.Clock, "transport-orphans"),
			alive: map[types.UID]struct{}{}, found: map[*space]map[types.UID]struct{}{},
		},
	}
	watch, err := dynwatch.New(dynwatch.Config{Source: c.wanted, Informer: config.Metadata, Handler: (*objectHandler)(c)})
	if err != nil {
		return nil, err
	}
	c.watch = watch
	c.objects = newObjects(config.Objects, watch, config.Pipeline)
	c.packages = newPackages(config.Packages, config.Pipeline)
	for _, s := range config.Spaces {
		c.spaces = append(c.spaces, newSpace(c, s))
	}
	told, err := config.Bindings.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onBinding(nil, obj) },
		UpdateFunc: c.onBinding,
		DeleteFunc: func(obj any) { c.onBinding(obj, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch Bindings: %w", err)
	}
	if c.transforms, err = newCustomTransforms(c); err != nil {
		return nil, err
	}
	c.bindingsTold = told.HasSynced
	return c, nil
}

// newQueue returns a queue that hands out the first attempt at once and backs off after errors only.
func newQueue[K comparable](c clock.WithTicker, name string) workqueue.TypedRateLimitingInterface[K] {
	const first, last = 50 * time.Millisecond, time.Minute
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](first, last),
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, Clock: c})
}

// Run carries out Bindings until the context ends, and returns when everything it started has ended. It returns an error if a
// plugin does.
func (c *Controller) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues(logging.Controller, "transport")
	ctx, cancel := context.WithCancelCause(klog.NewContext(ctx, logger))
	defer cancel(nil)

	c.started = c.clock.Now()
	var running sync.WaitGroup
	running.Go(func() { c.config.Bindings.RunWithContext(ctx) })
	running.Go(func() { c.config.CustomTransforms.RunWithContext(ctx) })
	running.Go(func() { _ = c.watch.Run(ctx) }) // it returns nil
	for _, s := range c.spaces {
		running.Go(func() {
			if err := s.run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	running.Go(func() {
		// What is to be taken out of an object must be known before it is delivered.
		if !cache.WaitForCacheSync(ctx.Done(), c.config.Bindings.HasSynced, c.config.CustomTransforms.HasSynced) {
			return
		}
		// Who else lists an object must be known before it is delivered, too.
		for _, obj := range c.config.Bindings.GetStore().List() {
			if b, ok := obj.(*controlv1alpha1.Binding); ok && b.DeletionTimestamp == nil {
				c.list(b.Name, entriesOf(b))
			}
		}
		running.Go(func() { work(ctx, c.transforms.queue, c.transforms.sync) })
		for range min(c.config.Concurrency, 8) {
			running.Go(func() { work(ctx, c.bindings, c.syncBinding) })
		}
		for range 2 {
			running.Go(func() { work(ctx, c.status, c.syncStatus) })
		}
	})
	running.Go(func() { c.runOrphans(ctx, c.bindingsTold) })

	<-ctx.Done()
	c.bindings.ShutDown()
	c.status.ShutDown()
	c.transforms.queue.ShutDown()
	c.orphans.queue.ShutDown()
	for _, s := range c.spaces {
		s.queue.ShutDown()
	}
	running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Ready tells what is not known yet, nil when everything is. A space that does not answer is told of.
func (c *Controller) Ready() error {
	if !c.config.Bindings.HasSynced() {
		return errors.New("bindings are not synced")
	}
	if !c.config.CustomTransforms.HasSynced() {
		return errors.New("customtransforms are not synced")
	}
	for _, s := range c.spaces {
		if !s.store.hasSynced() {
			return fmt.Errorf("space %s is not synced", s.name)
		}
	}
	for _, state := range c.watch.Resources() {
		if !state.Synced {
			return fmt.Errorf("%s are not synced: %s", state.GroupResource(), state.Err)
		}
	}
	return nil
}

// result says when to work on a key again without an event; zero is never.
type result struct{ after time.Duration }

// work hands the keys of a queue to sync until the queue is shut down. An error backs off; ErrStale does so without a word,
// since an event is under way.
func work[K comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[K], sync func(context.Context, K) (result, error)) {
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		r, err := sync(klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), logging.Key, key)), key)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !errors.Is(err, ErrStale) {
				klog.FromContext(ctx).V(2).Info("Trying again later", logging.Key, key, logging.Reason, err.Error())
			}
			queue.AddRateLimited(key)
		default:
			queue.Forget(key)
			if r.after > 0 {
				queue.AddAfter(key, r.after)
			}
		}
		queue.Done(key)
	}
}

// enqueueBinding puts a Binding into its queue and notes since when.
func (c *Controller) enqueueBinding(name string) {
	now := c.clock.Now()
	c.mu.Lock()
	if _, waiting := c.changed[name]; !waiting {
		c.changed[name] = now
	}
	c.mu.Unlock()
	c.bindings.Add(name)
}

// onBinding notes a change of a Binding. Status is ours and is no change; but somebody else's write to it is put right.
func (c *Controller) onBinding(before, after any) {
	if tombstone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = tombstone.Obj
	}
	old, okOld := before.(*controlv1alpha1.Binding)
	current, ok := after.(*controlv1alpha1.Binding)
	c.notice(old, current)
	c.noteSource(old, current)
	switch {
	case !ok:
		c.enqueueBinding(old.Name)
	case okOld && old.UID == current.UID && old.Generation == current.Generation &&
		(old.DeletionTimestamp == nil) == (current.DeletionTimestamp == nil) && slices.Equal(old.Finalizers, current.Finalizers) &&
		textsOf(old) == textsOf(current):
		c.status.Add(current.Name)
	default:
		c.enqueueBinding(current.Name)
	}
}

// objectHandler hears of the objects of the WDS.
type objectHandler Controller

// OnChange implements dynwatch.Handler: a change of what is delivered of an object concerns the Bindings that list it.
func (h *objectHandler) OnChange(resource dynwatch.Resource, before, after metav1.Object) {
	meta := after
	switch {
	case after == nil:
		meta = before
	case before != nil && fingerprint(before) == fingerprint(after):
		return
	}
	c := (*Controller)(h)
	ref := objref.New(resource.GroupResource(), meta.GetNamespace(), meta.GetName())
	for _, name := range c.listing(ref) {
		c.enqueueBinding(name)
	}
}

// OnSynced implements dynwatch.Handler: what the watch did not show is known to be missing now.
func (h *objectHandler) OnSynced(resource dynwatch.Resource) {
	c := (*Controller)(h)
	for _, name := range c.using(resource.GroupResource()) {
		c.enqueueBinding(name)
	}
}

// OnStopped implements dynwatch.Handler: no Binding lists objects of that resource any more.
func (h *objectHandler) OnStopped(dynwatch.Resource) {}

// listing returns the Bindings that list an object.
func (c *Controller) listing(ref objref.Ref) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.listed[ref]))
}

// using returns the Bindings that list objects of a resource.
func (c *Controller) using(gr schema.GroupResource) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name, p := range c.placements {
		if _, ok := p.resources[gr]; ok {
			names = append(names, name)
		}
	}
	return names
}

// placementOf returns what a Binding asks for, nil if that is not known.
func (c *Controller) placementOf(name string) *placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.placements[name]
}

// enqueueDelivery puts one Binding at one destination into the queues of the spaces that are concerned: the one that owns the
// destination, and those that hold works for it.
func (c *Controller) enqueueDelivery(p *placement, mailbox string) {
	key := Key{Binding: p.name, Mailbox: mailbox}
	for _, s := range c.spaces {
		if _, known := s.store.destination(mailbox); known || s.store.has(p.uid, mailbox) {
			s.queue.Add(key)
		}
	}
}

// deliverEverywhere puts a Binding at all its destinations, and wherever works of it are, into the queues.
func (c *Controller) deliverEverywhere(p *placement) {
	mailboxes := maps.Clone(p.destinations)
	if mailboxes == nil {
		mailboxes = map[string]struct{}{}
	}
	for _, s := range c.spaces {
		for _, mailbox := range s.store.mailboxes(p.uid) {
			mailboxes[mailbox] = struct{}{}
		}
	}
	for _, mailbox := range slices.Sorted(maps.Keys(mailboxes)) {
		c.enqueueDelivery(p, mailbox)
	}
}

// owner returns the space that a destination belongs to, nil if none lets a cluster of that name in. sure is false while some
// space has not told of its clusters.
func (c *Controller) owner(name string) (owner *space, sure bool) {
	sure = true
	candidates := make(map[*space]inventory.Candidate, 1)
	for _, s := range c.spaces {
		if !s.store.hasSynced() {
			sure = false
		}
		if d, ok := s.store.destination(name); ok && d.Accepted {
			candidates[s] = d.Candidate
		}
	}
	owner, _ = inventory.Bearer(candidates, sure)
	return owner, sure
}
