package dynamicinformer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/metrics"
)

const (
	// syncPoll is how often a starting watch is checked for whether its handler has received
	// everything; client-go has no notification for that.
	syncPoll = 10 * time.Millisecond
	// recoveryPoll is how often a watch that failed after it had synced is checked for whether it
	// was read again.
	recoveryPoll = time.Second
)

// Config is what a Set is made of. Source and Informer are required.
type Config struct {
	// Source has the wanted resources.
	Source Source
	// Informer builds an informer for a resource, not started and with no other user.
	Informer func(Resource) cache.SharedIndexInformer
	// Handler, if not nil, receives what happens, before the Handlers that Run gets.
	Handler Handler
	// Failed, if not nil, is called each time that a list or watch of a resource failed, which is
	// retried. It must not block.
	Failed func(Resource, error)
	// Recovered, if not nil, is called when a resource that had synced, and then failed, was read
	// again. It must not block.
	Recovered func(Resource)
}

// Set runs one informer for each resource that its Source wants. It is safe for concurrent use.
type Set struct {
	config   Config
	handlers []Handler

	mu      sync.RWMutex
	watches map[schema.GroupResource]*watch
}

// New returns a Set that watches nothing until Run.
func New(config Config) (*Set, error) {
	if config.Source == nil || config.Informer == nil {
		return nil, errors.New("dynamicinformer: Source and Informer are required")
	}
	metrics.Register(unsynced)
	s := &Set{config: config, watches: map[schema.GroupResource]*watch{}}
	if config.Handler != nil {
		s.handlers = []Handler{config.Handler}
	}
	return s, nil
}

// Run starts and stops watches as the Source wants, until the context ends. Then it stops all of
// them without calling OnStopped, and waits for them. It returns nil. The Handlers read the Set,
// and receive what happens too.
func (s *Set) Run(ctx context.Context, more ...Handler) error {
	s.handlers = append(s.handlers, more...)
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

// sync starts and stops watches, so that those run that are wanted.
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
	var starts []Resource
	predecessors := map[Resource]*watch{}
	for gr, resource := range wanted {
		running := s.watches[gr]
		if running == nil || running.resource != resource {
			starts = append(starts, resource)
			predecessors[resource] = running
		}
	}
	s.mu.Unlock()

	for _, w := range stopped {
		w.stop()
		logger.V(2).Info("Stopped watching", logging.Resource, w.resource.GroupVersionResource)
		s.notify(func(h Handler) { h.OnStopped(w.resource) })
	}
	// Started in order, so that the core group, Namespaces among it, comes first.
	slices.SortFunc(starts, compare)
	for _, resource := range starts {
		// Another version of the same resource has the same objects. The old watch ends, but the
		// Handler is not notified of deletions; the new watch reports what is missing once it has
		// synced.
		var known cache.Store
		if predecessor := predecessors[resource]; predecessor != nil {
			predecessor.stop()
			known = predecessor.informer.GetStore()
		}
		w, err := s.start(ctx, resource, known)
		if err != nil {
			// Only an informer that was started before refuses handlers: a defect of
			// Config.Informer.
			logger.Error(err, "Cannot watch", logging.Resource, resource.GroupVersionResource)
			continue
		}
		s.mu.Lock()
		s.watches[resource.GroupResource()] = w
		s.mu.Unlock()
		logger.V(2).Info("Started watching", logging.Resource, resource.GroupVersionResource)
	}
}

// Get returns the object if it is known. The object is shared: do not change it.
func (s *Set) Get(ref objref.Ref) (metav1.Object, bool) {
	w := s.watch(ref.GroupResource())
	if w == nil {
		return nil, false
	}
	key := cache.NewObjectName(ref.Namespace, ref.Name).String()
	item, _, _ := w.informer.GetStore().GetByKey(key) // a store has no errors
	obj, ok := item.(metav1.Object)
	return obj, ok
}

// List returns all known objects of a resource, in no order. The objects are shared: do not change
// them.
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

// Synced reports whether the Handler received all objects of the resource that existed at the start
// of its watch. It returns false for a resource that is not watched.
func (s *Set) Synced(gr schema.GroupResource) bool {
	w := s.watch(gr)
	return w != nil && w.state().Synced
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
	slices.SortFunc(states, func(a, b State) int { return compare(a.Resource, b.Resource) })
	return states
}

// compare orders resources by group and name.
func compare(a, b Resource) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
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
	// failing: a goroutine waits until the resource is read again.
	failing bool
}

func (s *Set) start(ctx context.Context, resource Resource, known cache.Store) (*watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{resource: resource, informer: s.config.Informer(resource), cancel: cancel}
	err := w.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if w.failed(err) {
			version := w.informer.LastSyncResourceVersion()
			w.done.Go(func() { s.awaitRecovery(ctx, w, version) })
		}
		if s.config.Failed != nil {
			s.config.Failed(resource, err)
		}
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("set watch error handler: %w", err)
	}
	registration, err := w.informer.AddEventHandler(s.forward(resource))
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
						s.notify(func(h Handler) { h.OnChange(resource, obj, nil) })
					}
				}
			}
		}
		w.mu.Lock()
		w.synced, w.err = true, ""
		w.mu.Unlock()
		unsynced.DeleteLabelValues(resource.Group, resource.Resource)
		s.notify(func(h Handler) { h.OnSynced(resource) })
	})
	return w, nil
}

// stop ends the watch and waits until its last call of the Handler has returned.
func (w *watch) stop() {
	w.cancel()
	w.done.Wait()
	unsynced.DeleteLabelValues(w.resource.Group, w.resource.Resource)
}

// failed notes an error. It reports whether its end is to be waited for.
func (w *watch) failed(err error) (isFirst bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.synced && !Refused(err) {
		return false
	}
	w.err = err.Error()
	isFirst = w.synced && !w.failing
	w.failing = w.failing || isFirst
	return isFirst
}

// awaitRecovery waits until a resource has another version than that at which it failed: each
// successful list or watch has one.
func (s *Set) awaitRecovery(ctx context.Context, w *watch, version string) {
	err := wait.PollUntilContextCancel(ctx, recoveryPoll, false, func(context.Context) (bool, error) {
		return w.informer.LastSyncResourceVersion() != version, nil
	})
	if err != nil {
		return // stopped before
	}
	w.mu.Lock()
	w.failing, w.err = false, ""
	w.mu.Unlock()
	if s.config.Recovered != nil {
		s.config.Recovered(w.resource)
	}
}

// Refused reports whether an API server responded that a resource cannot be read, and did not just
// ask to read it again. While the server does not respond, nothing is known about the resource.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusNotFound, http.StatusGone, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

func (w *watch) state() State {
	w.mu.Lock()
	defer w.mu.Unlock()
	return State{Resource: w.resource, Synced: w.synced, Err: w.err}
}

// forward turns the events of one informer into calls of the Handlers.
func (s *Set) forward(resource Resource) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if added, ok := obj.(metav1.Object); ok {
				s.notify(func(h Handler) { h.OnChange(resource, nil, added) })
			}
		},
		UpdateFunc: func(before, after any) {
			old, okOld := before.(metav1.Object)
			current, okCurrent := after.(metav1.Object)
			// A relist passes every object; those with the same version did not change.
			if okOld && okCurrent && (old.GetResourceVersion() != current.GetResourceVersion() || old.GetUID() != current.GetUID()) {
				s.notify(func(h Handler) { h.OnChange(resource, old, current) })
			}
		},
		DeleteFunc: func(obj any) {
			// The deletion was missed; this is the last observed state.
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if deleted, ok := obj.(metav1.Object); ok {
				s.notify(func(h Handler) { h.OnChange(resource, deleted, nil) })
			}
		},
	}
}

func (s *Set) notify(call func(Handler)) {
	for _, handler := range s.handlers {
		call(handler)
	}
}
