package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/logging"
)

// syncPoll is how often a starting watch is asked whether its handler has seen everything; client-go offers no notice.
const syncPoll = 10 * time.Millisecond

// Config is what a Set is made of. All fields are required but Failed.
type Config struct {
	// Source says which resources are wanted.
	Source Source
	// Informer makes an informer for a resource, not started and with no other user.
	Informer func(Resource) cache.SharedIndexInformer
	// Handler is told what happens.
	Handler Handler
	// Failed, if not nil, is told each time that a list or watch of a resource failed; it is tried again. It must not block.
	Failed func(Resource, error)
}

// Set keeps one informer for each resource that its Source wants. It is safe for concurrent use.
type Set struct {
	config Config

	mu      sync.RWMutex
	watches map[schema.GroupResource]*watch
}

// New returns a Set that watches nothing until Run.
func New(config Config) (*Set, error) {
	if config.Source == nil || config.Informer == nil || config.Handler == nil {
		return nil, errors.New("dynwatch: Source, Informer and Handler are required")
	}
	return &Set{config: config, watches: map[schema.GroupResource]*watch{}}, nil
}

// Run starts and stops watches as the Source wants, until the context ends; then it stops all of them, without a call of
// OnStopped, and waits. It returns nil.
func (s *Set) Run(ctx context.Context) error {
	for {
		s.sync(ctx)
		select {
		case <-ctx.Done():
			s.mu.Lock()
			watches := s.watches
			s.watches = map[schema.GroupResource]*watch{}
			s.mu.Unlock()
			for _, w := range watches {
				w.stop()
			}
			return nil
		case <-s.config.Source.Changed():
		}
	}
}

// sync makes the running watches those that are wanted.
func (s *Set) sync(ctx context.Context) {
	logger := klog.FromContext(ctx)
	wanted := s.config.Source.Resources()

	s.mu.Lock()
	var stopped []*watch
	for gr, running := range s.watches {
		if _, ok := wanted[gr]; !ok {
			delete(s.watches, gr)
			stopped = append(stopped, running)
		}
	}
	type start struct {
		resource    Resource
		predecessor *watch
	}
	var starts []start
	for gr, resource := range wanted {
		running := s.watches[gr]
		if running == nil || running.resource != resource {
			starts = append(starts, start{resource, running})
		}
	}
	s.mu.Unlock()

	for _, w := range stopped {
		w.stop()
		logger.V(2).Info("Stopped watching", logging.Resource, w.resource.GroupVersionResource)
		s.config.Handler.OnStopped(w.resource)
	}
	// Started in order, so that the core group, Namespaces among it, comes first.
	slices.SortFunc(starts, func(a, b start) int {
		return objref.Compare(objref.New(a.resource.GroupResource(), "", ""), objref.New(b.resource.GroupResource(), "", ""))
	})
	for _, st := range starts {
		// Another version of the same resource: the same objects. The old watch ends, but the Handler is not told that they
		// are gone; the new watch reports what is missing once it has synced.
		var known cache.Store
		if st.predecessor != nil {
			st.predecessor.stop()
			known = st.predecessor.informer.GetStore()
		}
		w, err := s.start(ctx, st.resource, known)
		if err != nil {
			// Handlers and transforms are refused only by an informer that was started before: a defect of Config.Informer.
			logger.Error(err, "Cannot watch", logging.Resource, st.resource.GroupVersionResource)
			continue
		}
		s.mu.Lock()
		s.watches[st.resource.GroupResource()] = w
		s.mu.Unlock()
		logger.V(2).Info("Started watching", logging.Resource, st.resource.GroupVersionResource)
	}
}

// Get returns the object if it is known. The object is shared: do not change it.
func (s *Set) Get(ref objref.Ref) (metav1.Object, bool) {
	w := s.watch(ref.GroupResource())
	if w == nil {
		return nil, false
	}
	key := ref.Name
	if ref.Namespace != "" {
		key = ref.Namespace + "/" + ref.Name
	}
	item, exists, err := w.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return nil, false
	}
	obj, ok := item.(metav1.Object)
	return obj, ok
}

// List returns all known objects of a resource, in no order. The objects are shared: do not change them.
func (s *Set) List(gr schema.GroupResource) []metav1.Object {
	w := s.watch(gr)
	if w == nil {
		return nil
	}
	items := w.informer.GetStore().List()
	objects := make([]metav1.Object, 0, len(items))
	for _, item := range items {
		if obj, ok := item.(metav1.Object); ok {
			objects = append(objects, obj)
		}
	}
	return objects
}

// Synced tells whether all objects of the resource that existed at the start of its watch were handed to the Handler. It is
// false for a resource that is not watched.
func (s *Set) Synced(gr schema.GroupResource) bool {
	w := s.watch(gr)
	return w != nil && w.isSynced()
}

// Resource returns the watched resource of that group and name.
func (s *Set) Resource(gr schema.GroupResource) (Resource, bool) {
	w := s.watch(gr)
	if w == nil {
		return Resource{}, false
	}
	return w.resource, true
}

// Resources returns the state of all watched resources, sorted by group and resource.
func (s *Set) Resources() []State {
	s.mu.RLock()
	states := make([]State, 0, len(s.watches))
	for _, w := range s.watches {
		states = append(states, w.state())
	}
	s.mu.RUnlock()
	slices.SortFunc(states, func(a, b State) int {
		return objref.Compare(objref.New(a.GroupResource(), "", ""), objref.New(b.GroupResource(), "", ""))
	})
	return states
}

func (s *Set) watch(gr schema.GroupResource) *watch {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.watches[gr]
}

// watch is the running informer of one resource.
type watch struct {
	resource Resource
	informer cache.SharedIndexInformer
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu     sync.Mutex
	synced bool
	err    string
}

func (s *Set) start(ctx context.Context, resource Resource, known cache.Store) (*watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{resource: resource, informer: s.config.Informer(resource), cancel: cancel}
	err := w.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.failed(err)
		if s.config.Failed != nil {
			s.config.Failed(resource, err)
		}
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("set watch error handler: %w", err)
	}
	registration, err := w.informer.AddEventHandler(forward{handler: s.config.Handler, resource: resource})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("add event handler: %w", err)
	}
	unsynced.WithLabelValues(resource.Group, resource.Resource).Set(1)
	w.done.Go(func() { w.informer.RunWithContext(ctx) })
	w.done.Go(func() {
		err := wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) {
			return registration.HasSynced(), nil
		})
		if err != nil {
			return // stopped before
		}
		if known != nil {
			for _, item := range known.List() {
				if _, exists, err := w.informer.GetStore().Get(item); err == nil && !exists {
					if obj, ok := item.(metav1.Object); ok {
						s.config.Handler.OnChange(resource, obj, nil)
					}
				}
			}
		}
		w.mu.Lock()
		w.synced, w.err = true, ""
		w.mu.Unlock()
		unsynced.DeleteLabelValues(resource.Group, resource.Resource)
		s.config.Handler.OnSynced(resource)
	})
	return w, nil
}

// stop ends the watch and waits until its last call of the Handler has returned.
func (w *watch) stop() {
	w.cancel()
	w.done.Wait()
	unsynced.DeleteLabelValues(w.resource.Group, w.resource.Resource)
}

func (w *watch) isSynced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced
}

func (w *watch) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		w.err = err.Error()
	}
}

func (w *watch) state() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{Resource: w.resource, Synced: w.synced, Err: w.err}
}

// forward turns the events of one informer into calls of the Handler.
type forward struct {
	handler  Handler
	resource Resource
}

func (f forward) OnAdd(obj any, _ bool) {
	if added, ok := obj.(metav1.Object); ok {
		f.handler.OnChange(f.resource, nil, added)
	}
}

func (f forward) OnUpdate(before, after any) {
	old, okOld := before.(metav1.Object)
	current, okCurrent := after.(metav1.Object)
	// A relist hands over every object; those with the same version did not change.
	if okOld && okCurrent && (old.GetResourceVersion() != current.GetResourceVersion() || old.GetUID() != current.GetUID()) {
		f.handler.OnChange(f.resource, old, current)
	}
}

func (f forward) OnDelete(obj any) {
	// The delete event was missed; this is the last state that was seen.
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if deleted, ok := obj.(metav1.Object); ok {
		f.handler.OnChange(f.resource, deleted, nil)
	}
}
