package variants

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller.
const Name = "packagevariants"

// Objects are those of the WDS that may be injected. *Kinds is one.
type Objects interface {
	// Use replaces the kinds that are watched.
	Use(kinds map[schema.GroupKind]struct{})
	// Version returns a version that changes when the object is created, changed or deleted, or
	// when its kind is. It is not known while the kind is being read.
	Version(ctx context.Context, namespace string, o configv1alpha1.InjectedObject) (version string, known bool, err error)
	// Get reads an object, and what Version returns for it; nil if it does not exist. The error is
	// mutation.ErrNotServed if the kind does not exist, and a mutation.RefusedError if its objects
	// are not injected.
	Get(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (object map[string]any, version string, err error)
}

// Config is what a Controller works with. All fields but Bindings and InjectedKinds are required.
type Config struct {
	// WDS is the WDS; WDSName its name in metrics.
	WDS     *rest.Config
	WDSName string
	// Watch is shared by all controllers of packages. Its owner runs it.
	Watch *informers.Informers
	// Bindings are those of packages; nil if packages are not delivered. Their owner runs them.
	Bindings *informers.Bindings
	// InjectedKinds are cluster-scoped kinds whose objects may be injected.
	InjectedKinds []schema.GroupKind
	// Events records events about PackageVariants, without blocking.
	Events events.EventRecorder
}

// Controller reconciles PackageVariants.
type Controller struct {
	Config
	kinds   *Kinds
	objects Objects // kinds, except in tests
	files   *content.Cache
	writer  *writer.Writer
	self    *client.Self
	schemas *client.Schemas
	clock   clock.PassiveClock
	queue   *worker.Queue[types.NamespacedName]

	mu     sync.Mutex
	states map[types.NamespacedName]*state
	// use counts the PackageVariants that look for objects of a kind.
	use map[schema.GroupKind]int
	// lost are those that wait for the revision that theirs were created from.
	lost map[types.NamespacedName]struct{}
}

// state is what is remembered about a PackageVariant between two syncs. Only the worker that has
// its key uses it.
type state struct {
	uid types.UID
	// wrote are the writes that the informers do not show yet, by name of the PackageRevision, ""
	// for the PackageVariant itself.
	wrote informers.PendingWrites
	// renders are the results of rendering, of revisions whose files were written.
	renders map[string]*porchv1alpha1.RenderStatus
	// rounds are those of drafts whose files were written, by name.
	rounds map[string]*variant.Rounds
	// underWay is since when the package is being delivered to its cluster; zero if it is not.
	underWay time.Time
}

func (s *state) roundsOf(draft string) *variant.Rounds {
	if s.rounds[draft] == nil {
		s.rounds[draft] = &variant.Rounds{}
	}
	return s.rounds[draft]
}

// contentCache is how many bytes of files are cached: one upstream is merged into many packages,
// and each package is read after it was written.
const contentCache = 64 << 20

// New returns a Controller that sends no requests until Run. Watch must not run yet. At most one
// replica may run: it needs a lease.
func New(config Config) (*Controller, error) {
	c := &Controller{
		Config: config,
		clock:  clock.RealClock{},
		states: map[types.NamespacedName]*state{},
		use:    map[schema.GroupKind]int{},
		lost:   map[types.NamespacedName]struct{}{},
	}
	chunks, err := content.New(config.WDS, c.clock)
	if err != nil {
		return nil, err
	}
	c.files = content.NewCache(chunks, contentCache)
	if c.writer, err = writer.New(config.WDS, config.WDSName, "starling-"+Name); err != nil {
		return nil, err
	}
	if c.self, err = client.NewSelf(config.WDS); err != nil {
		return nil, err
	}
	if c.schemas, err = client.NewSchemas(config.WDS); err != nil {
		return nil, err
	}
	if c.kinds, err = NewKinds(config.WDS, config.InjectedKinds, c.clock, c); err != nil {
		return nil, err
	}
	c.objects = c.kinds
	c.queue = worker.New(worker.Config{
		Name: Name, MinBackOff: 50 * time.Millisecond, Quiet: apierrors.IsNotFound, // the informers are behind
	}, c.sync)
	if config.Bindings != nil {
		if err := config.Bindings.Handle(c.queue.WaitFor, c.onBinding); err != nil {
			return nil, err
		}
	}
	return c, errors.Join(
		config.Watch.Variants.Handle(c.queue.WaitFor, c.onVariant),
		config.Watch.Revisions.Handle(c.queue.WaitFor, c.onRevision),
		config.Watch.Repositories.Handle(c.queue.WaitFor, c.onRepository),
	)
}

// Run works until the context ends, and waits for all that it started. It starts when all informers
// have synced.
func (c *Controller) Run(ctx context.Context, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.kinds.Run(ctx) })
	group.Go(func() error { c.queue.Run(ctx, workers); return nil })
	return group.Wait()
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error { return c.queue.Ready() }

func (c *Controller) stateOf(pv *configv1alpha1.PackageVariant) *state {
	key := informers.KeyOf(pv)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[key]
	if s == nil || s.uid != pv.UID {
		s = &state{uid: pv.UID, wrote: informers.PendingWrites{}, renders: map[string]*porchv1alpha1.RenderStatus{}, rounds: map[string]*variant.Rounds{}}
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
