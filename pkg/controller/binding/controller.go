package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
)

// Name of the controller, in logs and metrics.
const Name = "binding"

// API tells what the WDS serves. *dynwatch.Discovery is one. It does not block.
type API interface {
	// Resources returns the resources that are watched.
	Resources() map[schema.GroupResource]dynwatch.Resource
	// Serves tells whether the WDS serves a resource of the group; nil is any group, "" any resource.
	Serves(group *string, resource string) (serves, known bool)
	// Unknown returns the API groups of which nothing could be read so far.
	Unknown() []string
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Policies and Bindings are informers of the WDS, not started: the Controller runs them.
	Policies, Bindings cache.SharedIndexInformer
	// Inventories are the ITSes. Of several clusters of one name, the one that was accepted first counts; the others get a
	// condition.
	Inventories []Inventory
	// API tells what the WDS serves.
	API API
	// Selectable tells whether objects of a resource may be workload at all.
	Selectable func(schema.GroupResource) bool
	// Index relates policies, objects and clusters. It belongs to the Controller; others may read it.
	Index *match.Index
	// Writer writes to the WDS.
	Writer Writer
	// Events tells of what became of policies.
	Events Recorder
	// Live reads the Bindings of a policy from the API server, for the rare moment when a cache is not enough.
	Live func(context.Context, *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error)
	// MaxBindingSize is how large a Binding becomes before another one begins, in bytes of JSON.
	MaxBindingSize int
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Controller turns BindingPolicies into Bindings. Of the objects of the WDS it is told through OnChange, OnSynced and
// OnStopped (dynwatch.Handler).
type Controller struct {
	config     Config
	collectors Collectors // nil: nobody knows
	inventory  *inventory
	departures *departures
	troubles   *troubles
	started    time.Time
	queue      workqueue.TypedRateLimitingInterface[string]
	pace       *pace
	writes     *ownWrites
	synced     []cache.InformerSynced

	// telling orders what the index is told of policies. It is taken before mu.
	telling sync.Mutex

	mu sync.Mutex
	// specs are the policies as the index was told of them.
	specs map[string]spec
	// settled are the states of policies in which nothing was left to write.
	settled map[string]settled
	// deleted are the Bindings that were deleted, by their names: a cache may show them untouched yet.
	deleted map[string]types.UID
	// begun are the losses that were released and may be half written, by policy.
	begun map[string]*corebinding.Loss
	// unreadSince tells for policies of which something is unread since when.
	unreadSince map[string]time.Time
	// letsGoSince tells for policies that wait for others to take something over since when.
	letsGoSince map[string]time.Time
}

// spec is a policy that the index was told of.
type spec struct {
	version  versionOf
	compiled *match.Policy // nil if the policy is invalid or being deleted
	invalid  []string
}

// versionOf tells states of one policy apart.
type versionOf struct {
	uid        string
	generation int64
	deleting   bool
}

func versionOfPolicy(p *controlv1alpha1.BindingPolicy) versionOf {
	return versionOf{uid: string(p.UID), generation: p.Generation, deleting: p.DeletionTimestamp != nil}
}

var _ dynwatch.Handler = &Controller{}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Policies == nil || config.Bindings == nil || len(config.Inventories) == 0 || config.API == nil ||
		config.Selectable == nil || config.Index == nil || config.Writer == nil || config.Events == nil || config.Live == nil || config.MaxBindingSize <= 0 ||
		config.Clock == nil {
		return nil, errors.New("binding: all fields of Config are required")
	}
	c := &Controller{
		config: config,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[string]{Name: Name, Clock: config.Clock}),
		pace:        newPace(config.Clock),
		departures:  newDepartures(config.Clock),
		troubles:    newTroubles(),
		started:     config.Clock.Now(),
		writes:      newOwnWrites(config.Clock),
		specs:       map[string]spec{},
		settled:     map[string]settled{},
		deleted:     map[string]types.UID{},
		unreadSince: map[string]time.Time{},
		letsGoSince: map[string]time.Time{},
		begun:       map[string]*corebinding.Loss{},
	}
	c.inventory = newInventory(config.Inventories, config.Clock, c.onCluster, c.onInventories)
	policies, err := config.Policies.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onPolicy(obj) },
		UpdateFunc: func(_, obj any) { c.onPolicy(obj) },
		DeleteFunc: c.onPolicyDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch BindingPolicies: %w", err)
	}
	if err := config.Bindings.AddIndexers(cache.Indexers{byOwner: ownerOf}); err != nil {
		return nil, fmt.Errorf("index Bindings: %w", err)
	}
	bindings, err := config.Bindings.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onBinding(obj) },
		UpdateFunc: func(_, obj any) { c.onBinding(obj) },
		DeleteFunc: c.onBindingDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch Bindings: %w", err)
	}
	c.synced = []cache.InformerSynced{policies.HasSynced, bindings.HasSynced}
	return c, nil
}

// byOwner is the index of Bindings by the UIDs of their policies.
const byOwner = "owner"

func ownerOf(obj any) ([]string, error) {
	if b, ok := obj.(*controlv1alpha1.Binding); ok {
		if owner := metav1.GetControllerOfNoCopy(b); owner != nil {
			return []string{string(owner.UID)}, nil
		}
	}
	return nil, nil
}

// Run works until the context ends, and waits for its workers and informers. It begins when the policies and Bindings were
// read; what else is not read yet stays as it is.
func (c *Controller) Run(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx).WithValues(logging.Controller, Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "workers", workers)
	defer logger.Info("Ended")

	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	defer c.inventory.marks.ShutDown()
	running.Go(func() { c.config.Policies.RunWithContext(ctx) })
	running.Go(func() { c.config.Bindings.RunWithContext(ctx) })
	c.inventory.run(ctx, &running)
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil
	}
	// Only now it is sure that the Bindings of invalid policies were there to be held.
	for _, name := range c.config.Policies.GetStore().ListKeys() {
		c.hold(name)
		c.keep(name)
	}
	c.config.Index.SetPoliciesKnown()
	if workers > 0 {
		c.inventory.runMarks(ctx, &running)
	}
	for range workers {
		running.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

// Ready tells what was not read yet, nil if nothing.
func (c *Controller) Ready() error {
	var missing []string
	for i, what := range []string{"BindingPolicies", "Bindings"} {
		if !c.synced[i]() {
			missing = append(missing, what+" of the WDS")
		}
	}
	for _, group := range c.config.API.Unknown() {
		missing = append(missing, "API group "+group)
	}
	resources := c.config.API.Resources()
	if len(resources) == 0 {
		missing = append(missing, "the API of the WDS")
	}
	for gr := range resources {
		if !c.config.Index.Known(gr) {
			missing = append(missing, gr.String())
		}
	}
	slices.Sort(missing)
	missing = append(missing, c.inventory.missing()...)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not read yet: %s", strings.Join(missing, ", "))
}

func (c *Controller) next(ctx context.Context) bool {
	name, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(name)
	logger := klog.FromContext(ctx).WithValues(logging.BindingPolicy, name)
	after, err := c.sync(klog.NewContext(ctx, logger), name)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil:
		c.queue.Forget(name)
		if after > 0 {
			c.queue.AddAfter(name, after)
		}
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		// The caches are behind. The next attempt comes soon, or with the event that brings them up to date.
		logger.V(4).Info("Conflict", logging.Reason, err.Error())
		c.queue.AddRateLimited(name)
	default:
		logger.Error(err, "Cannot bring the Binding up to date")
		c.queue.AddRateLimited(name)
	}
	return true
}
