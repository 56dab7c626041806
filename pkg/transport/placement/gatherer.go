package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/writer"
)

// MinBackOff is the delay after the first error of a key, in all queues of the transport.
const MinBackOff = 50 * time.Millisecond

// Queue collects the names of Bindings.
type Queue interface {
	Add(binding string)
}

// Consumer carries out Placements. Its methods must not block.
type Consumer interface {
	// OnBinding is called when a Binding was created or deleted.
	OnBinding(uid types.UID)
	// OnBindingsSynced is called once, after OnBinding was called for all Bindings that existed at
	// the start.
	OnBindingsSynced()
	// OnPlacement is called when the Placement of a Binding was published. before is nil for the
	// first one, after is nil if the Binding is gone. It may be called for the same Placement
	// again. Calls for one Binding come one after the other.
	OnPlacement(name string, before, after *Placement)
}

// Mailboxes knows what is in the mailboxes.
type Mailboxes interface {
	// Delivered returns the objects in the works of a Binding; complete is false while some
	// mailboxes have not been read yet.
	Delivered(binding types.UID) (refs map[objref.Ref]struct{}, complete bool)
	// Lacking returns the objects of a Placement that some work of its Binding has with other
	// content, or that no work has.
	Lacking(p *Placement) map[objref.Ref]bool
}

// WDS is how the transport reads a WDS, and writes to it. All is required except Packages.
type WDS struct {
	// Bindings is the informer on the Bindings, not started.
	Bindings cache.SharedIndexInformer
	// CustomTransforms is the informer on the CustomTransforms, not started. The Gatherer adds an
	// index to it.
	CustomTransforms cache.SharedIndexInformer
	// Metadata returns informers on the metadata of objects.
	Metadata func(dynamicinformer.Resource) cache.SharedIndexInformer
	// Objects reads objects.
	Objects dynamic.Interface
	// Versions reads which Bindings and CustomTransforms exist, and in which version.
	Versions metadata.Interface
	// Packages reads packages; nil: none are delivered.
	Packages Packages
	// Writer writes finalizers and status of Bindings, and the status of CustomTransforms.
	Writer *writer.Writer
}

// Config is what a Gatherer is made of. All is required.
type Config struct {
	WDS
	// Index reads the store of the informer on Bindings.
	Index *Index
	// Queue is that of the Bindings for which Sync is called.
	Queue     Queue
	Consumer  Consumer
	Mailboxes Mailboxes
	// ManagementNamespaces are the namespaces of Open Cluster Management to which objects may be
	// delivered; none if it is empty.
	ManagementNamespaces []string
	// Limits bound the works.
	Limits packing.Limits
	Clock  clock.WithTicker
}

// Gatherer computes the Placements of Bindings.
type Gatherer struct {
	config     Config
	index      *Index
	watches    *watches
	watch      wdsWatch
	objects    *objects
	packages   *packages
	transforms *customTransforms
	// handled reports whether all Bindings that existed at the start went through onBinding.
	handled cache.InformerSynced

	// held is what Transactions held when the Bindings were enqueued that this concerns. Only Sync
	// of pkgv1.HoldsBinding uses it.
	held plan.Holds

	// leading guards leads, and is held for reading while a Placement is published.
	leading sync.RWMutex
	// leads says that this process may write.
	leads bool

	mu sync.Mutex
	// changed are the changes for which Bindings are in the queue.
	changed map[string]change
	// unconfirmed are Bindings with content that was read before this process became the leader.
	unconfirmed map[string]struct{}
}

// New returns a Gatherer that does nothing until Run.
func New(config Config) (*Gatherer, error) {
	metrics.Register(packagingSeconds, objectReads, packageReads)
	metrics.Register(bindingsCount, customTransformsCount, bindingWhats, bindingWheres, bindingAreas)
	g := &Gatherer{
		config: config, index: config.Index, watches: newWatches(), packages: newPackages(config.Packages),
		changed: map[string]change{},
	}
	var err error
	g.watch.definitions = config.Metadata(crds)
	g.watch.Set, err = dynamicinformer.New(dynamicinformer.Config{Source: g.watches.source, Informer: config.Metadata, Handler: objectHandler{g}})
	if err != nil {
		return nil, err
	}
	g.objects = newObjects(config.Objects, g.watch)
	registration, err := config.Bindings.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { g.onBinding(nil, obj) },
		UpdateFunc: g.onBinding,
		DeleteFunc: func(obj any) { g.onBinding(obj, nil) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch Bindings: %w", err)
	}
	g.handled = registration.HasSynced
	g.transforms, err = newCustomTransforms(config.CustomTransforms, config.Writer, config.Clock, g)
	return g, err
}

// Run watches objects and follows CustomTransforms until the context ends. It returns when
// everything that it started has ended.
func (g *Gatherer) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = g.watch.Run(ctx) }) // it returns nil
	running.Go(func() { g.watch.definitions.RunWithContext(ctx) })
	running.Go(func() {
		g.transforms.queue.WaitFor("customtransforms", g.config.CustomTransforms.HasSynced)
		g.transforms.queue.Run(ctx, 1)
	})
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), g.handled) {
			g.config.Consumer.OnBindingsSynced()
		}
	})
}

// ListAll records the objects that all Bindings list. Call it when the informer on Bindings has
// synced, before the first Sync: which other Bindings list an object must be known before it is
// delivered.
func (g *Gatherer) ListAll() {
	bindings := g.index.Bindings()
	for _, b := range bindings {
		if b.DeletionTimestamp == nil {
			g.list(b.Name, entriesOf(b))
		}
	}
	g.want(bindings)
}

// want has the objects of these Bindings read together where the Bindings share lists; each Sync
// reads its own ones at the latest. It watches what they need.
func (g *Gatherer) want(bindings []*controlv1alpha1.Binding) {
	for _, b := range bindings {
		if b.DeletionTimestamp != nil {
			continue
		}
		entries := entriesOf(b)
		p := &Placement{Name: b.Name, policy: policyOf(b)}
		p.need(entries)
		recipes := g.recipes(p, entries, g.watches.add(p))
		unread := batches{}
		for i, e := range entries {
			if len(recipes[i].removal.Unknown) > 0 {
				continue
			}
			if _, ok := g.objects.cached(e.ref, recipes[i]); !ok {
				unread.add(e.ref, recipes[i])
			}
		}
		g.objects.want(unread)
	}
}

// Ready returns an error that says what has not synced yet, nil if everything has.
func (g *Gatherer) Ready() error {
	if !g.config.Bindings.HasSynced() {
		return errors.New("bindings are not synced")
	}
	if !g.config.CustomTransforms.HasSynced() {
		return errors.New("customtransforms are not synced")
	}
	for _, state := range g.watch.Resources() {
		if !state.Synced {
			return fmt.Errorf("%s are not synced: %s", state.GroupResource(), state.Err)
		}
	}
	return nil
}

// enqueueTogether enqueues Bindings whose objects may have to be read again.
func (g *Gatherer) enqueueTogether(names []string) {
	var bindings []*controlv1alpha1.Binding
	for _, name := range names {
		if b, err := g.index.Binding(name); err == nil && b != nil {
			bindings = append(bindings, b)
		}
	}
	g.want(bindings)
	for _, name := range names {
		g.enqueue(name, "")
	}
}

// Newest returns the resourceVersion of the newest change for which a Binding waits in the queue, 0
// if that is not known. At the start all Bindings wait, and the one that a user edited last is the
// one for which somebody waits.
func (g *Gatherer) Newest(name string) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed[name].version
}

// dequeue returns the change for which a Binding was in the queue, the zero change if it was not
// enqueued for one.
func (g *Gatherer) dequeue(name string) change {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.changed[name]
	delete(g.changed, name)
	return c
}

// list records the objects that a Binding lists.
func (g *Gatherer) list(name string, entries []entry) {
	g.index.List(name, func(yield func(objref.Ref) bool) {
		for i := range entries {
			if !yield(entries[i].ref) {
				return
			}
		}
	})
}

func (g *Gatherer) onBinding(before, after any) {
	if tombstone, ok := before.(cache.DeletedFinalStateUnknown); ok {
		before = tombstone.Obj
	}
	old, _ := before.(*controlv1alpha1.Binding)
	current, _ := after.(*controlv1alpha1.Binding)
	// The Index knows the source before the Binding can have a Placement, and whether the Binding
	// exists before the Consumer asks.
	g.index.NoteBinding(old, current)
	for _, b := range []*controlv1alpha1.Binding{old, current} {
		if b != nil && (old == nil || current == nil || old.UID != current.UID) {
			g.config.Consumer.OnBinding(b.UID)
		}
	}
	switch {
	case current == nil:
		g.enqueue(old.Name, old.ResourceVersion)
	case Changed(old, current):
		g.enqueue(current.Name, current.ResourceVersion)
	}
}

// Changed reports whether a Binding must be gathered again after an update. A change of its status
// is no reason. before may be nil.
func Changed(before, after *controlv1alpha1.Binding) bool {
	return before == nil || before.UID != after.UID || before.Generation != after.Generation ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || !slices.Equal(before.Finalizers, after.Finalizers) ||
		textsOf(before) != textsOf(after)
}

// objectHandler enqueues the Bindings that a change of the objects in the WDS concerns.
type objectHandler struct{ *Gatherer }

// OnChange implements dynamicinformer.Handler.
func (h objectHandler) OnChange(resource dynamicinformer.Resource, before, after metav1.Object) {
	meta := after
	if after == nil {
		meta = before
	}
	ref := objref.New(resource.GroupResource(), meta.GetNamespace(), meta.GetName())
	listing := h.index.Listing(ref)
	if after == nil && len(listing) > 0 {
		h.objects.part(ref, before)
	}
	switch tracks := h.watch.TracksContent(resource.GroupResource()); {
	case after == nil:
	case before == nil && h.objects.has(ref, after, tracks):
		return // the watch begins, after the object was read
	case before != nil && fingerprint(before, tracks) == fingerprint(after, tracks):
		return
	}
	for _, name := range listing {
		if ofItself(ref, before, after) {
			h.enqueueFor(name, ref, meta.GetResourceVersion())
		} else {
			h.enqueue(name, meta.GetResourceVersion())
		}
	}
}

// OnSynced implements dynamicinformer.Handler. What the watch did not show is known to be missing
// now.
func (h objectHandler) OnSynced(resource dynamicinformer.Resource) {
	for _, p := range h.index.All() {
		for ref, object := range p.Objects {
			if ref.GroupResource() != resource.GroupResource() {
				continue
			}
			if _, present := h.watch.Get(ref); !present || !object.Known {
				h.enqueue(p.Name, "")
				break
			}
		}
	}
}

// OnStopped implements dynamicinformer.Handler. No Binding lists objects of that resource any more.
func (h objectHandler) OnStopped(dynamicinformer.Resource) {}
