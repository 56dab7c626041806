package status

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller, in logs and metrics.
const Name = "status"

// Requests returns which status policies request for an object. *match.Index is one. It does not
// block.
type Requests interface {
	Requests(ref objref.Ref) match.Requests
}

// Reports returns the reports of clusters. *statusreports.Reader is one. It does not block.
type Reports interface {
	Get(ref objref.Ref, uid types.UID, cluster string) (*statusreports.Report, bool)
}

// Objects returns the metadata of objects of the WDS. *dynamicinformer.Set is one. It does not
// block.
type Objects interface {
	Get(ref objref.Ref) (metav1.Object, bool)
	Resource(gr schema.GroupResource) (dynamicinformer.Resource, bool)
	Synced(gr schema.GroupResource) bool
}

// Writer writes to the WDS. *writer.Writer is one.
type Writer interface {
	Patch(ctx context.Context, t writer.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
}

// Versions learns which versions of an object differ in the status only. *binding.Running is one.
// It does not block.
type Versions interface {
	// StatusWriting is called before a write that is bound to a version of an object.
	StatusWriting(ref objref.Ref, version string)
	// StatusWritten is called after it, with the version that it left; "" if it failed.
	StatusWritten(ref objref.Ref, version string)
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Reports are the reports of clusters. Its owner runs it.
	Reports Reports
	// Requests are those of the policies.
	Requests Requests
	// Objects are those of the WDS. Its owner runs it.
	Objects Objects
	// Client reads single objects of the WDS.
	Client dynamic.Interface
	// Writer writes to the WDS.
	Writer Writer
	// Versions learns of all writes.
	Versions Versions
	// StatusErrors receives what users have to do something about.
	StatusErrors Errors
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Controller returns status. It observes Requests (OnChanges and OnKnown), Objects (as a
// dynamicinformer.Handler) and Reports (as a statusreports.Listener), which may call it before and
// while it runs.
type Controller struct {
	config Config
	queue  *worker.Queue[objref.Ref]
	// started is when Run began, before any worker.
	started time.Time

	mu sync.Mutex
	// held is the content of objects since their last sync.
	held map[objref.Ref]held
	// waiting are objects about which something was unknown at their last sync.
	waiting map[objref.Ref]struct{}
	// since is when the oldest report arrived that was not returned yet.
	since map[objref.Ref]arrival
	// due is the earliest time at which the status of an object in several clusters is computed
	// again.
	due map[objref.Ref]time.Time
	// contests are objects that another client also writes.
	contests map[objref.Ref]contest
	// statusErrors are those that were reported, by object.
	statusErrors map[objref.Ref]string
	// forbidden are objects that may not be patched, and until when that is assumed.
	forbidden map[forbidden]time.Time
}

var (
	_ dynamicinformer.Handler = &Controller{}
	_ statusreports.Listener  = &Controller{}
)

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Reports == nil || config.Requests == nil || config.Objects == nil || config.Client == nil ||
		config.Writer == nil || config.Versions == nil || config.StatusErrors == nil || config.Clock == nil {
		return nil, errors.New("status: all fields of Config are required")
	}
	c := &Controller{
		config:  config,
		held:    map[objref.Ref]held{},
		waiting: map[objref.Ref]struct{}{},
		since:   map[objref.Ref]arrival{},

		due:          map[objref.Ref]time.Time{},
		contests:     map[objref.Ref]contest{},
		statusErrors: map[objref.Ref]string{},
		forbidden:    map[forbidden]time.Time{},
	}
	metrics.Register(finalization)
	c.queue = worker.New(worker.Config{Name: Name, Clock: config.Clock}, c.sync)
	return c, nil
}

// Run works until the context ends, and waits for its workers. It starts at once: an object about
// which something is unknown is not changed.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer lag.Add(c.lags)()
	c.started = c.config.Clock.Now()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		select {
		case <-c.config.Clock.After(readingTime):
			c.wake(schema.GroupResource{})
		case <-ctx.Done():
		}
	})
	c.queue.Run(ctx, workers)
	return nil
}

// OnChanges requeues the objects whose Requests may have changed.
func (c *Controller) OnChanges(changes match.Changes) {
	for _, ref := range changes.Requests {
		c.queue.Add(ref)
	}
}

// OnKnown requeues the objects of a resource, or of all resources if it is empty, about which
// something was unknown.
func (c *Controller) OnKnown(gr schema.GroupResource) { c.wake(gr) }

// OnChange implements dynamicinformer.Handler. An object without returned status costs nothing
// here.
func (c *Controller) OnChange(resource dynamicinformer.Resource, before, after metav1.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	ref := objref.New(resource.GroupResource(), obj.GetNamespace(), obj.GetName())
	if before != nil && after != nil && newer(before.GetResourceVersion(), after.GetResourceVersion()) {
		c.doubt(ref) // versions go back when a WDS is restored, and only then
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last, holds := c.held[ref]
	isOwn := holds && after != nil && last.uid == after.GetUID() && last.resourceVersion == after.GetResourceVersion()
	if (labelled(before) || labelled(after) || holds) && !isOwn {
		c.queue.AddAfter(ref, c.pause(ref)) // at once, except in a contest
	}
}

// OnSynced implements dynamicinformer.Handler.
func (c *Controller) OnSynced(resource dynamicinformer.Resource) { c.wake(resource.GroupResource()) }

// OnStopped implements dynamicinformer.Handler.
func (c *Controller) OnStopped(resource dynamicinformer.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := func(ref objref.Ref) bool { return ref.GroupResource() == resource.GroupResource() }
	maps.DeleteFunc(c.held, func(ref objref.Ref, _ held) bool { return gone(ref) })
	maps.DeleteFunc(c.waiting, func(ref objref.Ref, _ struct{}) bool { return gone(ref) })
	maps.DeleteFunc(c.due, func(ref objref.Ref, _ time.Time) bool { return gone(ref) })
	maps.DeleteFunc(c.contests, func(ref objref.Ref, _ contest) bool { return gone(ref) })
	maps.DeleteFunc(c.since, func(ref objref.Ref, _ arrival) bool { return gone(ref) })
	maps.DeleteFunc(c.forbidden, func(of forbidden, _ time.Time) bool { return of.resource == resource.GroupResource() })
	for ref := range c.statusErrors {
		if gone(ref) {
			c.queue.Add(ref) // to withdraw it
		}
	}
}

// OnReport implements statusreports.Listener.
func (c *Controller) OnReport(key statusreports.Key) {
	c.mu.Lock()
	if _, ok := c.since[key.Ref]; !ok {
		c.since[key.Ref] = arrival{at: c.config.Clock.Now(), cluster: key.Cluster}
	}
	wait := max(c.due[key.Ref].Sub(c.config.Clock.Now()), c.pause(key.Ref))
	c.mu.Unlock()
	c.queue.AddAfter(key.Ref, wait) // at once, if wait is negative
}

// OnReportsRead implements statusreports.Listener.
func (c *Controller) OnReportsRead() { c.wake(schema.GroupResource{}) }

// wake requeues the waiting objects of a resource, or of all resources if it is empty.
func (c *Controller) wake(gr schema.GroupResource) {
	c.mu.Lock()
	refs := slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	for _, ref := range refs {
		if gr.Empty() || ref.GroupResource() == gr {
			c.queue.Add(ref)
		}
	}
}

func labelled(obj metav1.Object) bool {
	return obj != nil && corestatus.OwnLabels(obj.GetLabels()) != nil
}
