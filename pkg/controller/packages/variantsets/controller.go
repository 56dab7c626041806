package variantsets

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
	"k8s.io/utils/clock"

	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller, in logs and metrics.
const Name = "variantsets"

// Config is what a Controller works with. All fields but Clusters and TargetKinds are required.
type Config struct {
	// WDS is the WDS; WDSName its name in metrics.
	WDS     *rest.Config
	WDSName string
	// Watch is shared by all controllers of packages. Its owner runs it.
	Watch *informers.Informers
	// Clusters are those of the ITSes; nil if there are none. Its owner runs it.
	Clusters *clusters.Reader
	// TargetKinds are the cluster-scoped kinds, besides ManagedClusters, from which objectSelectors
	// may select.
	TargetKinds []schema.GroupKind
}

// Controller reconciles PackageVariantSets.
type Controller struct {
	Config
	kinds  *Kinds
	writer *writer.Writer
	clock  clock.PassiveClock
	queue  *worker.Queue[types.NamespacedName]

	mu     sync.Mutex
	states map[types.NamespacedName]*state
	// byUID are sets by their UIDs, waiting by packages that others own.
	byUID   map[types.UID]types.NamespacedName
	waiting map[binding.Package]map[types.NamespacedName]struct{}
}

// state is what is remembered about a set. What is above the line belongs to the worker that has
// the set, the rest is guarded by the Controller's mutex.
type state struct {
	uid        types.UID
	generation int64
	compiled   *variant.Compiled
	invalid    []string
	rendered   variant.RenderCache
	begun      *variant.Deletions
	refused    map[variant.Package]string
	// wrote are the PackageVariants that were written and that the cache may not show yet, by name.
	wrote informers.PendingWrites
	// statusWritten is when the status was written last; unread is since when something that the
	// set selects from has not been read.
	statusWritten, unread time.Time

	// --- guarded

	// interest is what the set depends on; planned is when it was planned last, took how long that
	// took; status is what was written last.
	interest *interest
	blocked  []variant.Package
	planned  time.Time
	took     time.Duration
	status   *configv1alpha2.PackageVariantSetStatus
}

// New returns a Controller that sends no requests until Run. Watch and Clusters must not run yet.
// At most one replica may run: it needs a lease.
func New(config Config) (*Controller, error) {
	c := &Controller{
		Config:  config,
		clock:   clock.RealClock{},
		states:  map[types.NamespacedName]*state{},
		byUID:   map[types.UID]types.NamespacedName{},
		waiting: map[binding.Package]map[types.NamespacedName]struct{}{},
	}
	metrics.Register(plannings)
	var err error
	if c.writer, err = writer.New(config.WDS, config.WDSName, "starling-"+Name); err != nil {
		return nil, err
	}
	c.queue = worker.New(worker.Config{
		Name: Name, MinBackOff: 50 * time.Millisecond, Quiet: apierrors.IsNotFound, // the caches are behind
	}, c.sync)
	if c.kinds, err = newKinds(config.WDS, config.Clusters, config.TargetKinds, c); err != nil {
		return nil, err
	}
	return c, errors.Join(
		config.Watch.VariantSets.Handle(c.queue.WaitFor, c.onSet),
		config.Watch.Variants.Handle(c.queue.WaitFor, c.onVariant),
		config.Watch.Repositories.Handle(c.queue.WaitFor, c.onRepository),
		config.Watch.Revisions.Handle(c.queue.WaitFor, c.onRevision),
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

// Ready returns an error that names what is not synced, nil if all is. An ITS or a kind that cannot
// be read is reported by the sets that select from it.
func (c *Controller) Ready() error { return c.queue.Ready() }

// Times between two plannings of one set. The first one after a quiet time is at once.
const (
	// leastUrgent and leastIdle are the least times: after changes of what a set requests, and of
	// its progress.
	leastUrgent = 100 * time.Millisecond
	leastIdle   = time.Second
	// share is the least time as a multiple of the duration of the last planning: so planning takes
	// a twentieth of a processor at most. The wait is never longer than most.
	share = 20
	most  = 2 * time.Second
)

type urgency bool

const (
	urgent urgency = true
	idle   urgency = false
)

// wait returns for how long a set must not be planned.
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
	return max(0, max(least, min(share*s.took, most))-c.clock.Since(s.planned))
}

func (c *Controller) enqueue(key types.NamespacedName, u urgency) {
	c.queue.AddAfter(key, c.wait(key, u))
}
