package variants

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Name of the controller.
const Name = "packagevariants"

// Files reads files by their digest. They are shared.
type Files interface {
	Get(ctx context.Context, digest string) (kptpkg.Files, error)
}

// Objects are those of the WDS that may be injected. *Kinds is one.
type Objects interface {
	// Use says which kinds are to be watched.
	Use(kinds map[schema.GroupKind]struct{})
	// Version returns what changes when the object changes, comes or goes, or when its kind does. It is not known while the kind is being read.
	Version(ctx context.Context, namespace string, o configv1alpha1.InjectedObject) (version string, known bool, err error)
	// Get reads an object, and what Version returns for it; nil if it is not there. An error is mutation.ErrNotServed if there is no such
	// kind, or says why it may not be read.
	Get(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (object map[string]any, version string, err error)
}

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Create(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	UpdateInto(ctx context.Context, t write.Target, obj, answer any, reason string) error
	Delete(ctx context.Context, t write.Target, uid types.UID, reason string) error
}

// Recorder tells of events, without blocking. An events.EventRecorder is one.
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Config is what a Controller works with.
type Config struct {
	// Watch is what all controllers of packages share. Its owner runs it.
	Watch *packagewatch.Informers
	// Bindings are those that carry packages to clusters; nil if none are. Their owner runs them.
	Bindings *packagewatch.Bindings
	// Objects are what may be injected. Their owner runs them, and has them tell the Controller.
	Objects Objects
	Files   Files
	Writer  Writer
	Events  Recorder
	// Clock is the real one but in tests.
	Clock clock.WithTicker
	// Reached is told each point between two writes; nil for nobody. Tests end the process there.
	Reached func(point string)
}

// Controller keeps PackageVariants.
type Controller struct {
	config Config
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	synced []cache.InformerSynced

	mu     sync.Mutex
	states map[types.NamespacedName]*state
	// use counts how many PackageVariants look for objects of a kind.
	use map[schema.GroupKind]int
	// lost are those that wait for the revision that theirs were made from.
	lost map[types.NamespacedName]struct{}
}

// state is what is remembered of a PackageVariant between two syncs. Only the worker that has its key uses it.
type state struct {
	uid types.UID
	// wrote is what was written and is not yet seen, by name of the PackageRevision, "" for the PackageVariant itself.
	wrote packagewatch.Writes
	// renders are what rendering came to, of revisions whose files were written.
	renders map[string]*porchv1alpha1.RenderStatus
	// underWay is since when the package is on its way to its cluster; zero if it is not.
	underWay time.Time
}

// New returns a Controller that does nothing until Run. Watch must not run yet.
func New(config Config) (*Controller, error) {
	if config.Watch == nil || config.Objects == nil || config.Files == nil || config.Writer == nil || config.Events == nil || config.Clock == nil {
		return nil, errors.New("variants: all fields of Config but Reached are required")
	}
	if config.Reached == nil {
		config.Reached = func(string) {}
	}
	c := &Controller{
		config: config,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: Name, Clock: config.Clock}),
		states: map[types.NamespacedName]*state{},
		use:    map[schema.GroupKind]int{},
		lost:   map[types.NamespacedName]struct{}{},
	}
	if err := c.watch(); err != nil {
		return nil, err
	}
	return c, nil
}

// Run works until the context ends, and waits for its workers. It begins when all has been read.
func (c *Controller) Run(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx).WithValues(logging.Controller, Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "workers", workers)
	defer logger.Info("Ended")
	defer c.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil
	}
	var running sync.WaitGroup
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
	for _, synced := range c.synced {
		if !synced() {
			return errors.New("not all of what PackageVariants depend on has been read yet")
		}
	}
	return nil
}

func (c *Controller) next(ctx context.Context) bool {
	key, down := c.queue.Get()
	if down {
		return false
	}
	defer c.queue.Done(key)
	logger := klog.FromContext(ctx).WithValues(logging.Key, key)
	after, err := c.sync(klog.NewContext(ctx, logger), key)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		c.queue.Forget(key)
		if after > 0 {
			c.queue.AddAfter(key, after)
		}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		// The informers are behind. The next attempt comes soon, or with the event that brings them up to date.
		logger.V(4).Info("Not written", logging.Reason, err.Error())
		c.queue.AddRateLimited(key)
	default:
		logger.V(2).Info("Cannot keep the PackageVariant; it is tried again", logging.Reason, err.Error())
		c.queue.AddRateLimited(key)
	}
	return true
}

func (c *Controller) stateOf(pv *configv1alpha1.PackageVariant) *state {
	key := keyOf(pv)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[key]
	if s == nil || s.uid != pv.UID {
		s = &state{uid: pv.UID, wrote: packagewatch.Writes{}, renders: map[string]*porchv1alpha1.RenderStatus{}}
		c.states[key] = s
	}
	return s
}

func (c *Controller) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.states, key)
	delete(c.lost, key)
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
