package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

const (
	// Name of the controller, in logs and metrics, and the field manager of its writes.
	Name = "status-agent"

	// syncPoll is how often a starting informer is asked whether its handler has seen everything.
	syncPoll = 10 * time.Millisecond
	// maxRetryDelay is how long a hub that is back waits at most for what it missed.
	maxRetryDelay = 10 * time.Second
)

// Resources that an agent needs before it can start.
var (
	// HubResources must be served by the hub.
	HubResources = []schema.GroupVersionResource{controlv1alpha1.WorkStatuses, manifestWorks}
	// WECResources must be served by the WEC.
	WECResources = []schema.GroupVersionResource{{Group: workv1.GroupName, Version: "v1", Resource: "appliedmanifestworks"}}

	manifestWorks = schema.GroupVersionResource{Group: workv1.GroupName, Version: "v1", Resource: "manifestworks"}
)

// Config is what an Agent is made of. All fields are required but Excluded.
type Config struct {
	// Cluster is the name of the cluster on the hub, and of its mailbox.
	Cluster string
	// Hub leads to the ITS, WEC to the cluster.
	Hub, WEC *rest.Config
	// Excluded kinds are not reported.
	Excluded corestatus.Excluded
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Agent reports on one WEC.
type Agent struct {
	config Config
	index  *index
	queue  workqueue.TypedRateLimitingInterface[key]

	applied, works, mailbox watched
	wanted                  *dynwatch.Wanted
	objects                 *dynwatch.Set
	wec                     dynamic.Interface
	wecKinds                *served
	kinds                   *kinds
	hub                     *client.Client
	hubWriter, wecWriter    *write.Writer
	// refresh receives a value when other resources may be wanted.
	refresh chan struct{}
	// hubTrouble tells whether the hub could not be reached, or did not know us, when it was asked last.
	hubTrouble atomic.Bool

	mu sync.Mutex
	// written is what was written last, by the name of the WorkStatus.
	written map[string]record
	// since tells when an object changed that is not reported yet, by the name of its WorkStatus.
	since map[string]time.Time
	// changed are changes of objects that their controllers have taken no notice of.
	changed map[objref.Ref]change
	// limits tells how long a status may be that the hub refused because of its size, by the name of its WorkStatus.
	limits map[string]int
}

// key names a WorkStatus.
type key struct{ name string }

// watched is an informer and what tells whether its handler has seen everything.
type watched struct {
	what     string
	informer cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration
}

// New returns an Agent that does nothing until Run.
func New(config Config) (*Agent, error) {
	if config.Cluster == "" || config.Hub == nil || config.WEC == nil || config.Clock == nil {
		return nil, errors.New("agent: Cluster, Hub, WEC and Clock are required")
	}
	a := &Agent{
		config: config,
		index:  newIndex(config.Excluded),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](10*time.Millisecond, maxRetryDelay),
			workqueue.TypedRateLimitingQueueConfig[key]{Name: Name, Clock: config.Clock}),
		wanted:  dynwatch.NewWanted(),
		kinds:   newKinds(),
		refresh: make(chan struct{}, 1),
		written: map[string]record{},
		since:   map[string]time.Time{},
		changed: map[objref.Ref]change{},
		limits:  map[string]int{},
	}
	if err := a.connect(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *Agent) connect() error {
	var errs [6]error
	var hubMetadata metadata.Interface
	a.hub, errs[0] = client.New(a.config.Hub)
	hubMetadata, errs[1] = metadata.NewForConfig(a.config.Hub)
	a.hubWriter, errs[2] = write.New(a.config.Hub, "hub", Name)
	a.wecWriter, errs[3] = write.New(a.config.WEC, "wec", Name)
	a.wec, errs[4] = dynamic.NewForConfig(a.config.WEC)
	a.wecKinds, errs[5] = newServed(a.config.WEC, a.wec)
	wecWorks, err := workclient.NewForConfig(a.config.WEC)
	if err := errors.Join(append(errs[:], err)...); err != nil {
		return fmt.Errorf("build clients: %w", err)
	}

	applied := wecWorks.WorkV1().AppliedManifestWorks()
	a.applied, err = observe("AppliedManifestWorks", cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return applied.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return applied.Watch(ctx, options)
		},
	}, &workv1.AppliedManifestWork{}, 0, cache.Indexers{}), reduceApplied, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.worksChanged(a.setApplied(obj)) },
		UpdateFunc: func(_, obj any) { a.worksChanged(a.setApplied(obj)) },
		DeleteFunc: func(obj any) { a.worksChanged(a.index.deleteApplied(nameOf(obj))) },
	})
	if err != nil {
		return err
	}
	// All works of the mailbox, not just ours: that a work is not ours is told from that it was not seen yet.
	a.works, err = observe("ManifestWorks", metadatainformer.NewFilteredMetadataInformer(hubMetadata, manifestWorks, a.config.Cluster, 0,
		cache.Indexers{}, nil).Informer(), reduceWork, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.worksChanged(a.setWork(obj)) },
		UpdateFunc: func(_, obj any) { a.worksChanged(a.setWork(obj)) },
		DeleteFunc: func(obj any) { a.worksChanged(a.index.deleteWork(nameOf(obj))) },
	})
	if err != nil {
		return err
	}
	mailbox, err := client.NewInformer(a.hub.WorkStatuses(a.config.Cluster), &controlv1alpha1.WorkStatus{}, nil)
	if err != nil {
		return fmt.Errorf("build informer for WorkStatuses: %w", err)
	}
	a.mailbox, err = observe("WorkStatuses", mailbox, reduceReport, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.queue.Add(key{nameOf(obj)}) },
		UpdateFunc: func(_, obj any) { a.queue.Add(key{nameOf(obj)}) },
		DeleteFunc: a.reportDeleted,
	})
	if err != nil {
		return err
	}
	for _, w := range []watched{a.works, a.mailbox} {
		if err := w.informer.SetWatchErrorHandlerWithContext(a.hubWatchFailed); err != nil {
			return fmt.Errorf("watch %s: %w", w.what, err)
		}
	}
	a.objects, err = dynwatch.New(dynwatch.Config{
		Source: a.wanted, Informer: dynwatch.DynamicInformer(a.wec, reduceObject), Handler: a, Failed: a.kinds.failed,
	})
	return err
}

func observe(what string, informer cache.SharedIndexInformer, transform cache.TransformFunc, handler cache.ResourceEventHandler) (watched, error) {
	if err := informer.SetTransform(transform); err != nil {
		return watched{}, fmt.Errorf("watch %s: %w", what, err)
	}
	handled, err := informer.AddEventHandler(handler)
	if err != nil {
		return watched{}, fmt.Errorf("watch %s: %w", what, err)
	}
	return watched{what: what, informer: informer, handled: handled}, nil
}

// Run works until the context ends, and waits for its workers.
func (a *Agent) Run(ctx context.Context, workers int) error {
	logger := klog.FromContext(ctx).WithValues(logging.Controller, Name, logging.Cluster, a.config.Cluster)
	ctx = klog.NewContext(ctx, logger)
	defer reportLag.Add(a.lags)()
	logger.Info("Starting", "workers", workers)
	defer logger.Info("Ended")

	var running sync.WaitGroup
	for _, w := range []watched{a.applied, a.works, a.mailbox} {
		running.Go(func() { w.informer.RunWithContext(ctx) })
	}
	running.Go(func() { _ = a.objects.Run(ctx) })
	running.Go(func() { a.followWanted(ctx) })
	running.Go(func() { a.followKinds(ctx) })
	running.Go(func() { a.heartbeat(ctx) })
	for range workers {
		running.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	a.queue.ShutDown()
	running.Wait()
	return nil
}

// Ready tells what was not read yet, nil if nothing. Resources of the WEC are not asked for: one that comes and goes, or is
// not served any more, makes the agent no less able to report on the others.
func (a *Agent) Ready() error {
	var missing []string
	for _, w := range []watched{a.applied, a.works, a.mailbox} {
		if !w.handled.HasSynced() {
			missing = append(missing, w.what)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s not read yet", strings.Join(missing, ", "))
	}
	return nil
}

// synced tells whether the works and the mailbox were read: before, nothing is decided.
func (a *Agent) synced() bool {
	return a.applied.handled.HasSynced() && a.works.handled.HasSynced() && a.mailbox.handled.HasSynced()
}

// followWanted watches the resources that our works hold: none before all works were read, then at once what changes.
func (a *Agent) followWanted(ctx context.Context) {
	if wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return a.synced(), nil }) != nil {
		return
	}
	a.enqueueAll(schema.GroupResource{})
	for {
		a.wanted.Set(a.kinds.withoutGone(a.index.wanted(a.reportedResources())))
		select {
		case <-ctx.Done():
			return
		case <-a.refresh:
		}
	}
}

// enqueueAll looks at all objects of that resource, or with none at all objects: those that are held and those that are
// reported.
func (a *Agent) enqueueAll(gr schema.GroupResource) {
	for _, name := range a.index.all(gr) {
		a.queue.Add(key{name})
	}
	for _, item := range a.mailbox.informer.GetStore().List() {
		if r, ok := item.(*report); ok && (gr.Empty() || r.source.Group == gr.Group && r.source.Resource == gr.Resource) {
			a.queue.Add(key{r.Name})
		}
	}
}

func (a *Agent) reportedResources() map[schema.GroupResource]struct{} {
	resources := map[schema.GroupResource]struct{}{}
	for _, item := range a.mailbox.informer.GetStore().List() {
		if r, ok := item.(*report); ok {
			resources[schema.GroupResource{Group: r.source.Group, Resource: r.source.Resource}] = struct{}{}
		}
	}
	return resources
}

func (a *Agent) setApplied(obj any) []string {
	w, ok := obj.(*workv1.AppliedManifestWork)
	if !ok {
		return nil
	}
	return a.index.setApplied(w)
}

func (a *Agent) setWork(obj any) []string {
	w, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	return a.index.setWork(w)
}

// worksChanged looks at the objects of works that changed.
func (a *Agent) worksChanged(names []string) {
	if len(names) == 0 {
		return
	}
	for _, name := range names {
		a.queue.Add(key{name})
	}
	a.lookAtWanted()
}

// lookAtWanted has the resources looked at that are to be watched.
func (a *Agent) lookAtWanted() {
	select {
	case a.refresh <- struct{}{}:
	default: // a refresh is due already
	}
}

// OnChange implements dynwatch.Handler.
func (a *Agent) OnChange(resource dynwatch.Resource, before, after metav1.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	ref := objref.New(resource.GroupResource(), obj.GetNamespace(), obj.GetName())
	name, held := a.index.name(ref)
	if a.objects.Synced(resource.GroupResource()) { // what was there before did not change now
		was, _ := before.(*reported)
		is, _ := after.(*reported)
		a.noteActivation(ref, was, is, held)
	}
	if !held {
		return
	}
	a.mu.Lock()
	if _, ok := a.since[name]; !ok {
		a.since[name] = a.config.Clock.Now()
	}
	a.mu.Unlock()
	a.queue.Add(key{name})
}

// OnSynced implements dynwatch.Handler.
func (a *Agent) OnSynced(resource dynwatch.Resource) { a.enqueueAll(resource.GroupResource()) }

// OnStopped implements dynwatch.Handler.
func (a *Agent) OnStopped(resource dynwatch.Resource) { a.enqueueAll(resource.GroupResource()) }

func nameOf(obj any) string {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if o, ok := obj.(metav1.Object); ok {
		return o.GetName()
	}
	return ""
}
