package status

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/reports"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// Name of the controller, in logs and metrics.
const Name = "status"

// Requests tells what the policies ask for the status of objects. *match.Index is one. It does not block.
type Requests interface {
	Requests(ref objref.Ref) match.Requests
}

// Reports tells what the clusters say. *reports.Reader is one. It does not block.
type Reports interface {
	Get(ref objref.Ref, cluster string) (*reports.Report, bool)
}

// Objects tells what the WDS holds, by metadata. *dynwatch.Set is one. It does not block.
type Objects interface {
	Get(ref objref.Ref) (metav1.Object, bool)
	Resource(gr schema.GroupResource) (dynwatch.Resource, bool)
	Synced(gr schema.GroupResource) bool
}

// Writer writes to the WDS. *write.Writer is one.
type Writer interface {
	Patch(ctx context.Context, t write.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Reports tells what the clusters say. Its owner runs it, and adds the Controller to its listeners.
	Reports Reports
	// Requests tells what is asked for.
	Requests Requests
	// Objects tells what objects there are.
	Objects Objects
	// Client reads single objects of the WDS.
	Client dynamic.Interface
	// Writer writes to the WDS.
	Writer Writer
	// Troubles is told of what users have to know.
	Troubles Troubles
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Controller returns status. It is told of changes through OnRequests and OnKnown (match.Observer), through OnChange,
// OnSynced and OnStopped (dynwatch.Handler), and through OnReport and OnReportsRead (reports.Listener); all may call it before
// and while it runs.
type Controller struct {
	config Config
	queue  workqueue.TypedRateLimitingInterface[objref.Ref]

	mu sync.Mutex
	// held is what objects hold that were looked at, since then.
	held map[objref.Ref]held
	// waiting are objects of which something was not known when they were looked at last.
	waiting map[objref.Ref]struct{}
	// since tells when the oldest report came in that was not returned yet.
	since map[objref.Ref]arrival
	// due tells when the status of an object in several clusters is made anew at the earliest.
	due map[objref.Ref]time.Time
	// contests are objects that somebody else writes as well.
	contests map[objref.Ref]contest
	// troubles are what was told of objects.
	troubles map[objref.Ref]string
	// barred are objects that may not be patched, and until when that is believed.
	barred map[barred]time.Time
}

var (
	_ match.Observer   = &Controller{}
	_ dynwatch.Handler = &Controller{}
	_ reports.Listener = &Controller{}
)

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Reports == nil || config.Requests == nil || config.Objects == nil || config.Client == nil ||
		config.Writer == nil || config.Troubles == nil || config.Clock == nil {
		return nil, errors.New("status: all fields of Config are required")
	}
	return &Controller{
		config: config,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[objref.Ref](5*time.Millisecond, time.Minute),
			workqueue.TypedRateLimitingQueueConfig[objref.Ref]{Name: Name, Clock: config.Clock}),
		held:    map[objref.Ref]held{},
		waiting: map[objref.Ref]struct{}{},
		since:   map[objref.Ref]arrival{},

		due:      map[objref.Ref]time.Time{},
		contests: map[objref.Ref]contest{},
		troubles: map[objref.Ref]string{},
		barred:   map[barred]time.Time{},
	}, nil
}

// Run works until the context ends, and waits for its workers. It starts at once: what is not known yet is left alone.
func (c *Controller) Run(ctx context.Context, workers int) error {
	defer lag.Add(c.lags)()
	logger := klog.FromContext(ctx).WithValues(logging.Controller, Name)
	ctx = klog.NewContext(ctx, logger)
	logger.Info("Starting", "workers", workers)
	defer logger.Info("Ended")

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

// OnRequests implements match.Observer.
func (c *Controller) OnRequests(refs []objref.Ref) {
	for _, ref := range refs {
		c.queue.Add(ref)
	}
}

// OnKnown implements match.Observer.
func (c *Controller) OnKnown(gr schema.GroupResource) { c.wake(gr) }

// OnChange implements dynwatch.Handler. Objects that have no returned status, and are to have none, cost nothing here.
func (c *Controller) OnChange(resource dynwatch.Resource, before, after metav1.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	ref := objref.New(resource.GroupResource(), obj.GetNamespace(), obj.GetName())
	if before != nil && after != nil && newer(before.GetResourceVersion(), after.GetResourceVersion()) {
		c.doubt(ref) // versions go back when a WDS is restored, and only then
	}
	if (labelled(before) || labelled(after) || c.holds(ref)) && !c.isOwn(ref, after) {
		c.mu.Lock()
		wait := c.pause(ref)
		c.mu.Unlock()
		c.queue.AddAfter(ref, wait) // at once, but in a contest
	}
}

// isOwn tells whether the object is as we left it.
func (c *Controller) isOwn(ref objref.Ref, obj metav1.Object) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.held[ref]
	return ok && obj != nil && last.uid == obj.GetUID() && last.resourceVersion == obj.GetResourceVersion()
}

// OnSynced implements dynwatch.Handler.
func (c *Controller) OnSynced(resource dynwatch.Resource) { c.wake(resource.GroupResource()) }

// OnStopped implements dynwatch.Handler.
func (c *Controller) OnStopped(resource dynwatch.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := func(ref objref.Ref) bool { return ref.GroupResource() == resource.GroupResource() }
	maps.DeleteFunc(c.held, func(ref objref.Ref, _ held) bool { return gone(ref) })
	maps.DeleteFunc(c.waiting, func(ref objref.Ref, _ struct{}) bool { return gone(ref) })
	maps.DeleteFunc(c.due, func(ref objref.Ref, _ time.Time) bool { return gone(ref) })
	maps.DeleteFunc(c.contests, func(ref objref.Ref, _ contest) bool { return gone(ref) })
	maps.DeleteFunc(c.since, func(ref objref.Ref, _ arrival) bool { return gone(ref) })
	maps.DeleteFunc(c.barred, func(of barred, _ time.Time) bool { return of.resource == resource.GroupResource() })
	for ref := range c.troubles {
		if gone(ref) {
			c.queue.Add(ref) // it is no trouble any more
		}
	}
}

// OnReport implements reports.Listener.
func (c *Controller) OnReport(key reports.Key) {
	c.mu.Lock()
	if _, ok := c.since[key.Ref]; !ok {
		c.since[key.Ref] = arrival{at: c.config.Clock.Now(), cluster: key.Cluster}
	}
	wait := max(c.due[key.Ref].Sub(c.config.Clock.Now()), c.pause(key.Ref))
	c.mu.Unlock()
	c.queue.AddAfter(key.Ref, wait) // at once, if that is over
}

// OnReportsRead implements reports.Listener.
func (c *Controller) OnReportsRead() { c.wake(schema.GroupResource{}) }

// wake looks again at the objects of that resource, or with none of all, of which something was not known.
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

func (c *Controller) next(ctx context.Context) bool {
	ref, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(ref)
	err := c.sync(ctx, ref)
	switch {
	case err == nil:
		c.queue.Forget(ref)
	case ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err):
		// Somebody was faster. What the object holds is read before the next attempt.
		klog.FromContext(ctx).V(4).Info("Conflict", logging.Object, ref.String())
		c.queue.AddRateLimited(ref)
	case asRefusal(ref, err) != nil:
		refusal := asRefusal(ref, err)
		c.troubled(ctx, ref, refusal.text)
		c.returned(ref, false)
		c.queue.Forget(ref)
		c.queue.AddAfter(ref, refusal.after)
	default:
		klog.FromContext(ctx).Error(err, "Cannot return status", logging.Object, ref.String())
		c.queue.AddRateLimited(ref)
	}
	return true
}

func labelled(obj metav1.Object) bool {
	return obj != nil && corestatus.OwnLabels(obj.GetLabels()) != nil
}
