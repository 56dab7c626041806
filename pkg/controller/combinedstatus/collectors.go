package combinedstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/writer"
)

// maxErrors bounds status.errors.
const maxErrors = 32

// Writer writes to the WDS. *writer.Writer is one.
type Writer interface {
	Create(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Patch(ctx context.Context, t writer.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t writer.Target, uid types.UID, reason string) error
}

// Collectors are the compiled StatusCollectors of a WDS. It writes their errors to their status.
type Collectors struct {
	informer   cache.SharedIndexInformer
	registered cache.ResourceEventHandlerRegistration
	writer     Writer
	queue      *worker.Queue[string]
	changed    []func(name string)

	mu sync.Mutex
	// compiled are the StatusCollectors as they were observed last.
	compiled map[string]compiled
	// interrupted has an error for each pair whose last evaluation took too long.
	interrupted map[match.Pair]interruption
}

// interruption says which StatusCollector took too long.
type interruption struct{ collector, err string }

// compiled is a StatusCollector that was compiled, or has errors.
type compiled struct {
	uid        types.UID
	generation int64
	collector  *combine.Collector // nil if there are errors
	errs       []string
}

// NewCollectors returns Collectors that read nothing until Run. The informer is not started: Run
// starts it.
func NewCollectors(informer cache.SharedIndexInformer, writer Writer, clock clock.WithTicker) (*Collectors, error) {
	if informer == nil || writer == nil || clock == nil {
		return nil, errors.New("combinedstatus: an informer, a writer and a clock are required")
	}
	c := &Collectors{
		informer: informer,
		writer:   writer,
		compiled: map[string]compiled{},

		interrupted: map[match.Pair]interruption{},
	}
	c.queue = worker.New(worker.Config{Name: "statuscollector", Clock: clock}, c.sync)
	var err error
	c.registered, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onChange(obj) },
		UpdateFunc: func(_, obj any) { c.onChange(obj) },
		DeleteFunc: c.onDelete,
	})
	return c, err
}

// Synced reports whether all StatusCollectors that existed at the start were compiled.
func (c *Collectors) Synced() bool { return c.registered.HasSynced() }

// Get returns the StatusCollector of that name; false if it is missing, or has errors.
func (c *Collectors) Get(name string) (*combine.Collector, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.compiled[name].collector
	return found, found != nil
}

// Missing returns which of the StatusCollectors do not exist, and which have errors; known is false
// until all have been read.
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

// Interrupted records that the evaluation of a pair took too long, which is then in the status of
// the StatusCollector until Evaluated.
func (c *Collectors) Interrupted(pair match.Pair, err *combine.InterruptedError) {
	c.mu.Lock()
	before := c.interrupted[pair].collector
	c.interrupted[pair] = interruption{err.Collector, tooLong(pair, err)}
	c.mu.Unlock()
	for _, name := range []string{before, err.Collector} {
		if name != "" {
			c.queue.Add(name)
		}
	}
}

func tooLong(pair match.Pair, err *combine.InterruptedError) string {
	return fmt.Sprintf("%s of policy %s: not evaluated within a minute, at cluster %s; its CombinedStatus stays as it was, and the evaluation is retried. "+
		"Make the expressions cheaper", pair.Ref, pair.Policy, err.Cluster)
}

// Evaluated records that a pair was evaluated, or is no longer to be.
func (c *Collectors) Evaluated(pair match.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.interrupted[pair]; ok {
		delete(c.interrupted, pair)
		c.queue.Add(was.collector)
	}
}

// Run reads StatusCollectors and writes their status until the context ends. It calls changed with
// each StatusCollector that is added, changed or deleted; these functions must not block.
func (c *Collectors) Run(ctx context.Context, workers int, changed ...func(name string)) error {
	c.changed = changed
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.informer.RunWithContext(ctx) })
	c.queue.Run(ctx, workers)
	return nil
}

// onChange compiles here, and not in the queue: so StatusCollectors are compiled when Synced
// returns true. That takes about a millisecond for each expression, once for each generation.
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
		c.notify(collector.Name)
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
	c.notify(name)
}

func (c *Collectors) notify(name string) {
	for _, changed := range c.changed {
		changed(name)
	}
}

// sync writes the errors of the StatusCollector to its status, if they changed.
func (c *Collectors) sync(ctx context.Context, name string) (worker.Result, error) {
	item, _, _ := c.informer.GetStore().GetByKey(name)
	collector, ok := item.(*controlv1alpha1.StatusCollector)
	if !ok || collector.DeletionTimestamp != nil {
		return worker.Result{}, nil
	}
	c.mu.Lock()
	now := c.compiled[name]
	var interrupted []string
	for _, i := range c.interrupted {
		if i.collector == name {
			interrupted = append(interrupted, i.err)
		}
	}
	c.mu.Unlock()
	slices.Sort(interrupted)
	if now.uid != collector.UID || now.generation != collector.Generation {
		return worker.Result{}, nil // a change is on its way, and requeues it
	}
	errs := text.Bound(slices.Concat(now.errs, interrupted), maxErrors)
	if collector.Status.ObservedGeneration == now.generation && slices.Equal(collector.Status.Errors, errs) {
		return worker.Result{}, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": collector.ResourceVersion},
		"status":   map[string]any{"observedGeneration": now.generation, "errors": errs}, // null removes previous errors
	})
	if err != nil {
		return worker.Result{}, err
	}
	target := writer.Target{Resource: controlv1alpha1.StatusCollectors, Name: name, Subresource: "status"}
	_, err = c.writer.Patch(ctx, target, types.MergePatchType, patch, "status")
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return worker.Result{}, err
}
