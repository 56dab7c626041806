package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// Name of the controller, in logs and metrics.
const Name = "binding"

// API knows what the WDS serves. *dynamicinformer.Discovery is one. It does not block.
type API interface {
	// Resources returns the resources that are watched.
	Resources() map[schema.GroupResource]dynamicinformer.Resource
	// Serves reports whether the WDS serves a resource of the group; nil is any group, "" any
	// resource.
	Serves(group *string, resource string) (serves, known bool)
	// Gone reports whether it is certain that the WDS has no object of the resource.
	Gone(gr schema.GroupResource) bool
	// Unknown returns the API groups of which nothing could be read so far.
	Unknown() []string
	// NotServed returns why the WDS does not serve a resource for now.
	NotServed(gr schema.GroupResource) dynamicinformer.NotServed
	// OnNotServed adds a handler for when the results of NotServed may have changed.
	OnNotServed(handler func())
}

// Collectors knows which StatusCollectors exist. It does not block.
type Collectors interface {
	// Missing returns which of those names do not exist, and which have errors; known is false as
	// long as not all were read.
	Missing(names []string) (missing, invalid []string, known bool)
}

// Observer is notified of what may have changed in the results of the Index. It is called by the
// goroutine that changed the Index, after the change. It may read the Index, and must not block.
type Observer interface {
	// OnChanges names what may have changed. It is shared: do not change it.
	OnChanges(changes match.Changes)
	// OnKnown says that Requests.Known and Collection.Known may have become true for all objects of
	// that resource; for the zero GroupResource, for all objects.
	OnKnown(gr schema.GroupResource)
}

// Config is what a Controller is made of. All fields but Collectors are required.
type Config struct {
	// Policies and Bindings are informers of the WDS, not started: the Controller runs them.
	Policies, Bindings cache.SharedIndexInformer
	// Clusters reads the clusters of all ITSes. Its owner runs it.
	Clusters *clusters.Reader
	API      API
	// Selectable reports whether objects of a resource may be workload at all.
	Selectable func(schema.GroupResource) bool
	// Index relates policies, objects and clusters. It belongs to the Controller; others may read
	// it.
	Index *match.Index
	// Collectors has policies report whether their StatusCollectors exist. Without it, the
	// condition that reports it stays as it is.
	Collectors Collectors
	// Writer writes to the WDS.
	Writer Writer
	Events Recorder
	Live   Live
	// MaxBindingSize is how large a Binding becomes before another one begins, in bytes of JSON.
	MaxBindingSize int
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Controller turns BindingPolicies into Bindings. It observes the objects of the WDS through
// OnChange, OnSynced and OnStopped (dynamicinformer.Handler).
type Controller struct {
	config    Config
	started   time.Time
	queue     *worker.Queue[string]
	synced    worker.Syncs
	observers []Observer

	memory          *memory
	writes          *ownWrites
	deletions       *deletions
	statusErrors    *statusErrors
	leftOutClusters leftOutClusters
	failures        *failures

	// indexing orders what the index receives of policies.
	indexing sync.Mutex
	// clustering orders what the index receives of clusters.
	clustering sync.Mutex
}

var _ dynamicinformer.Handler = &Controller{}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Policies == nil || config.Bindings == nil || config.Clusters == nil || config.API == nil || config.Selectable == nil ||
		config.Index == nil || config.Writer == nil || config.Events == nil || config.Live == nil || config.MaxBindingSize <= 0 || config.Clock == nil {
		return nil, errors.New("binding: all fields of Config but Collectors are required")
	}
	c := &Controller{
		config: config, started: config.Clock.Now(), memory: newMemory(config.Clock), writes: newOwnWrites(config.Clock),
		deletions: newDeletions(config.Clock), statusErrors: newStatusErrors(), failures: newFailures(config.Clock),
	}
	c.queue = worker.New(worker.Config{Name: Name, Clock: config.Clock}, c.sync)
	policies, err := config.Policies.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onPolicy(obj) },
		UpdateFunc: func(_, obj any) { c.onPolicy(obj) },
		DeleteFunc: c.onPolicyDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch BindingPolicies: %w", err)
	}
	if err := config.Bindings.AddIndexers(indexers); err != nil {
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
	c.synced = worker.Syncs{{Name: "BindingPolicies", HasSynced: policies.HasSynced}, {Name: "Bindings", HasSynced: bindings.HasSynced}}
	return c, nil
}

// Run works until the context ends, and waits for its workers and informers. It begins to write
// when the policies and Bindings have synced and leading is closed; what else has not synced stays
// as it is. Until leading is closed, another process may write: what that wrote is read first.
func (c *Controller) Run(ctx context.Context, leading <-chan struct{}, workers int) error {
	standsBy := true
	select {
	case <-leading:
		standsBy = false
	default:
	}
	c.config.Clusters.OnChange(c.onCluster)
	c.config.Clusters.OnMembers(c.onMember)
	c.config.API.OnNotServed(c.enqueueAll)
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	running.Go(func() { c.config.Policies.RunWithContext(ctx) })
	running.Go(func() { c.config.Bindings.RunWithContext(ctx) })
	if !c.synced.Wait(ctx) {
		return nil
	}
	// Before now, the Bindings of invalid policies may have been missing.
	for _, name := range c.config.Policies.GetStore().ListKeys() {
		c.freeze(name)
		c.retainClusters(name)
	}
	c.config.Index.SetPoliciesKnown()
	c.notifyKnown(schema.GroupResource{})
	if standsBy {
		select {
		case <-leading:
		case <-ctx.Done():
			return nil
		}
		if err := c.config.Live.CatchUp(ctx, c.config.Policies.GetStore(), c.config.Bindings.GetStore()); err != nil {
			return nil // the context has ended
		}
	}
	c.started = c.config.Clock.Now()
	c.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that lists what has not synced yet, but for what has been failing for a
// while: the objects of all other kinds are delivered meanwhile, and the condition Synced of the
// policies names it.
func (c *Controller) Ready() error {
	var missing []string
	for _, synced := range c.synced {
		if !synced.HasSynced() {
			missing = append(missing, synced.Name+" of the WDS")
		}
	}
	failed, failedGroups := c.failures.of(c.config.API.Unknown())
	for group, failure := range failedGroups {
		if !c.failures.isSettled(failure) {
			missing = append(missing, "API group "+group)
		}
	}
	resources := c.config.API.Resources()
	if len(resources) == 0 {
		missing = append(missing, "the API of the WDS")
	}
	for gr := range resources {
		if !c.config.Index.Known(gr) && !c.failures.isSettled(failed[gr]) {
			missing = append(missing, gr.String())
		}
	}
	slices.Sort(missing)
	missing = append(missing, unsyncedITSes(c.config.Clusters)...)
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not synced yet: %s", strings.Join(missing, ", "))
}
