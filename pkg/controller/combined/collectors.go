package combined

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// maxErrors bounds status.errors.
const maxErrors = 32

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Create(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Patch(ctx context.Context, t write.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t write.Target, uid types.UID, reason string) error
}

// Collectors are the StatusCollectors of a WDS, compiled. It tells those who wrote them what is wrong with them.
type Collectors struct {
	informer   cache.SharedIndexInformer
	registered cache.ResourceEventHandlerRegistration
	writer     Writer
	queue      workqueue.TypedRateLimitingInterface[string]
	listeners  []func(name string)

	mu sync.Mutex
	// compiled are the StatusCollectors as they were seen last.
	compiled map[string]compiled
}

// compiled is a StatusCollector that was understood, or not.
type compiled struct {
	uid        types.UID
	generation int64
	collector  *combine.Collector // nil if there are errors
	errs       []string
}

// NewCollectors returns Collectors that read nothing until Run. The informer is not started: Run starts it.
func NewCollectors(informer cache.SharedIndexInformer, writer Writer, clock clock.WithTicker) (*Collectors, error) {
	if informer == nil || writer == nil || clock == nil {
		return nil, errors.New("combined: an informer, a writer and a clock are required")
	}
	c := &Collectors{
		informer: informer,
		writer:   writer,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "statuscollector", Clock: clock}),
		compiled: map[string]compiled{},
	}
	var err error
	c.registered, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onChange(obj) },
		UpdateFunc: func(_, obj any) { c.onChange(obj) },
		DeleteFunc: c.onDelete,
	})
	return c, err
}

// OnChange has another be told which StatusCollector came, went or changed. Call it before Run. It must not block.
func (c *Collectors) OnChange(tell func(name string)) { c.listeners = append(c.listeners, tell) }

// Synced tells whether all StatusCollectors that there were at the start were read.
func (c *Collectors) Synced() bool { return c.registered.HasSynced() }

// Get returns the StatusCollector of that name; false if it is missing, or has errors.
func (c *Collectors) Get(name string) (*combine.Collector, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.compiled[name].collector
	return found, found != nil
}

// Missing returns which of the StatusCollectors are not there, and which have errors; known is false as long as not all were read.
func (c *Collectors) Missing(names []string) (missing, invalid []string, known bool) {
	known = c.Synced()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		switch found, ok := c.compiled[name]; {
		case !ok:
			missing = append(missing, name)
		case found.collector == nil:
			invalid = append(invalid, name)
		}
	}
	return missing, invalid, known
}

// Run reads StatusCollectors and writes their status until the context ends.
func (c *Collectors) Run(ctx context.Context, workers int) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(logging.Controller, "statuscollector"))
	var running sync.WaitGroup
	running.Go(func() { c.informer.RunWithContext(ctx) })
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

// onChange compiles here, and not in the queue: so whoever finds all StatusCollectors read finds them compiled. It takes about a
// millisecond for each expression, once for each generation.
func (c *Collectors) onChange(obj any) {
	collector, ok := obj.(*controlv1alpha1.StatusCollector)
	if !ok {
		return
	}
	c.mu.Lock()
	before, known := c.compiled[collector.Name]
	c.mu.Unlock()
	if !known || before.uid != collector.UID || before.generation != collector.Generation {
		now := compiled{uid: collector.UID, generation: collector.Generation}
		now.collector, now.errs = combine.Compile(&collector.Spec)
		c.mu.Lock()
		c.compiled[collector.Name] = now
		c.mu.Unlock()
		c.tell(collector.Name)
	}
	c.queue.Add(collector.Name)
}

func (c *Collectors) onDelete(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.mu.Lock()
	delete(c.compiled, name)
	c.mu.Unlock()
	c.tell(name)
}

func (c *Collectors) tell(name string) {
	for _, tell := range c.listeners {
		tell(name)
	}
}

func (c *Collectors) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	err := c.sync(ctx, name)
	switch {
	case err == nil || apierrors.IsNotFound(err):
		c.queue.Forget(name)
	case ctx.Err() != nil:
		return false
	default:
		if !apierrors.IsConflict(err) {
			klog.FromContext(ctx).Error(err, "Cannot write status of StatusCollector", "statusCollector", name)
		}
		c.queue.AddRateLimited(name)
	}
	return true
}

// sync writes what is wrong with the StatusCollector, if that is not what its status says.
func (c *Collectors) sync(ctx context.Context, name string) error {
	item, _, _ := c.informer.GetStore().GetByKey(name)
	collector, ok := item.(*controlv1alpha1.StatusCollector)
	if !ok || collector.DeletionTimestamp != nil {
		return nil
	}
	c.mu.Lock()
	now := c.compiled[name]
	c.mu.Unlock()
	if now.uid != collector.UID || now.generation != collector.Generation {
		return nil // a change is on its way, and comes here again
	}
	errs := now.errs
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], fmt.Sprintf("… and %d more", more))
	}
	if collector.Status.ObservedGeneration == now.generation && slices.Equal(collector.Status.Errors, errs) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": collector.ResourceVersion},
		"status":   map[string]any{"observedGeneration": now.generation, "errors": errs}, // null removes those that were
	})
	if err != nil {
		return err
	}
	target := write.Target{Resource: controlv1alpha1.StatusCollectors, Name: name, Subresource: "status"}
	_, err = c.writer.Patch(ctx, target, types.MergePatchType, patch, "status")
	return err
}
