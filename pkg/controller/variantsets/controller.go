package variantsets

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Name of the controller, in logs and metrics.
const Name = "variantsets"

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Create(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Update(ctx context.Context, t write.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error)
	Patch(ctx context.Context, t write.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
	Delete(ctx context.Context, t write.Target, uid types.UID, reason string) error
}

// Objects lists what objectSelectors select from. *Kinds is one.
type Objects interface {
	// List returns the objects of a kind: those in a namespace, or all of a kind without namespaces. It does not block. The error is
	// variant.ErrNotServed, or says why nothing is known; ErrUnread if that was so from the beginning.
	List(namespace string, kind schema.GroupKind) ([]variant.Metadata, error)
	// Readable returns the error that List would, without the objects.
	Readable(kind schema.GroupKind) error
	// Use says which kinds will be listed.
	Use(kinds map[schema.GroupKind]struct{})
	// Confirm asks the API server whether a kind is going, with all its objects; then it is not served any more.
	Confirm(ctx context.Context, kind schema.GroupKind) error
	// Left tells whether a Repository is that of a cluster which left, be it that its condition does not say so yet.
	Left(repository *configv1alpha1.Repository) bool
}

// Config is what a Controller is made of. All fields but Reached are required.
type Config struct {
	// Watch holds what is in the WDS. Its owner runs it.
	Watch *packagewatch.Informers
	// Objects lists objects. Its owner runs it, and has it tell the Controller of changes.
	Objects Objects
	// Writer writes to the WDS.
	Writer Writer
	// Clock is the real one but in tests.
	Clock clock.WithTicker
	// Reached is told each point between two writes; nil for nobody. Tests end the process there.
	Reached func(point string)
}

// Controller keeps PackageVariantSets.
type Controller struct {
	config Config
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	synced []cache.InformerSynced

	mu     sync.Mutex
	states map[types.NamespacedName]*state
	// byUID are sets by their UIDs, byKind by the kinds that they select, waiting by packages that others keep.
	byUID   map[types.UID]types.NamespacedName
	byKind  map[schema.GroupKind]map[types.NamespacedName]struct{}
	waiting map[namespacedPackage]map[types.NamespacedName]struct{}
}

// namespacedPackage is a package of a namespace.
type namespacedPackage struct {
	namespace string
	pkg       variant.Package
}

// state is what is remembered of a set. What stands above the line belongs to the worker that has the set, the rest is guarded by the
// Controller's mutex.
type state struct {
	uid        types.UID
	generation int64
	compiled   *variant.Compiled
	invalid    []string
	rendered   variant.Rendered
	begun      *variant.Deletions
	refused    map[variant.Package]string
	// wrote are the PackageVariants that were written and that the cache may not show yet, by name.
	wrote packagewatch.Writes
	// told is when the status was written last; unread since when something that the set selects from has not been read.
	told, unread time.Time

	// --- guarded

	// interest says what the set looks at; planned when it was planned last, and how long that took; status what was written last.
	interest *interest
	blocked  []variant.Package
	planned  time.Time
	took     time.Duration
	status   *configv1alpha2.PackageVariantSetStatus
}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Watch == nil || config.Objects == nil || config.Writer == nil || config.Clock == nil {
		return nil, errors.New("variantsets: all fields of Config but Reached are required")
	}
	if config.Reached == nil {
		config.Reached = func(string) {}
	}
	c := &Controller{
		config: config,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](50*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: Name, Clock: config.Clock}),
		states:  map[types.NamespacedName]*state{},
		byUID:   map[types.UID]types.NamespacedName{},
		byKind:  map[schema.GroupKind]map[types.NamespacedName]struct{}{},
		waiting: map[namespacedPackage]map[types.NamespacedName]struct{}{},
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

// errAgain asks for another attempt, later; why is not worth a line in the log.
var errAgain = errors.New("to be tried again")

func (c *Controller) next(ctx context.Context) bool {
	key, down := c.queue.Get()
	if down {
		return false
	}
	defer c.queue.Done(key)
	// What was asked for while it was planned knew of the time before.
	if wait := c.wait(key, urgent); wait > 0 {
		c.queue.AddAfter(key, wait)
		return true
	}
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
	case errors.Is(err, errAgain):
		c.queue.AddRateLimited(key)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		logger.V(4).Info("Not written, since the namespace goes", logging.Reason, err.Error())
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		// The caches are behind. The next attempt comes soon, or with the event that brings them up to date.
		logger.V(4).Info("Not written", logging.Reason, err.Error())
		c.queue.AddRateLimited(key)
	default:
		logger.Error(err, "Cannot keep the PackageVariantSet; it is tried again")
		c.queue.AddRateLimited(key)
	}
	return true
}

// Times between two plannings of one set. The first after quiet is at once.
const (
	// leastUrgent and leastIdle are the least: of what changes what a set asks for, and of what changes how far it is.
	leastUrgent = 100 * time.Millisecond
	leastIdle   = time.Second
	// share is how many times as long as it took: so planning takes a twentieth of a processor at most. Nobody waits longer than most.
	share = 20
	most  = 2 * time.Second
)

type urgency bool

const (
	urgent urgency = true
	idle   urgency = false
)

// wait returns for how long a set is not to be planned.
func (c *Controller) wait(key types.NamespacedName, u urgency) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[key]
	if s == nil || s.planned.IsZero() {
		return 0
	}
	least := leastIdle
	if u == urgent {
		least = leastUrgent
	}
	return max(0, max(least, min(share*s.took, most))-c.config.Clock.Since(s.planned))
}

func (c *Controller) enqueue(key types.NamespacedName, u urgency) {
	c.queue.AddAfter(key, c.wait(key, u))
}

// Ready tells what was not read yet, nil if nothing.
func (c *Controller) Ready() error {
	for _, synced := range c.synced {
		if !synced() {
			return fmt.Errorf("not all of what PackageVariantSets depend on has been read yet")
		}
	}
	return nil
}
