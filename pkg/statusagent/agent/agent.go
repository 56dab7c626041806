package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/pace"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

const (
	// Name of the controller, in logs and metrics, and the field manager of its writes.
	Name = "status-agent"

	// syncPoll is how often a starting informer is checked for whether its handler has received
	// everything.
	syncPoll = 10 * time.Millisecond
	// maxRetryDelay is the longest time until a hub that is reachable again receives what it
	// missed.
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
	// Hub is the ITS, WEC the cluster.
	Hub, WEC *rest.Config
	// Excluded kinds are not reported.
	Excluded corestatus.Excluded
	// Reports limits the reports of all objects together.
	Reports pace.Limit
	// Clock is the real one except in tests.
	Clock clock.WithTicker
}

// Agent reports on one WEC.
type Agent struct {
	config Config
	index  *index
	queue  *worker.Queue[string]

	applied, works, mailbox watched
	wanted                  *dynamicinformer.Wanted
	objects                 *dynamicinformer.Set
	wec                     dynamic.Interface
	wecKinds                *served
	kinds                   *kinds
	refusals                *refusals
	hub                     *client.Client
	hubWriter, wecWriter    *writer.Writer
	// refresh receives a value when the wanted resources may have changed.
	refresh chan struct{}
	// hubUnreachable reports whether the last request to the hub failed without a response, or with
	// 401.
	hubUnreachable atomic.Bool

	mu sync.Mutex
	// pace has what limits the reports, by the name of the WorkStatus.
	pace *pace.Pace
	// written is what was written last, by the name of the WorkStatus.
	written map[string]record
	// since is when an object changed whose change is not reported yet, by the name of its
	// WorkStatus.
	since map[string]time.Time
	// changed are changes of objects that their controllers have not observed.
	changed map[objref.Ref]change
	// limits are the sizes to which statuses are truncated that the hub refused because of their
	// size, by the name of their WorkStatus.
	limits map[string]int
}

// watched is an informer with the registration of its handler.
type watched struct {
	what     string
	informer cache.SharedIndexInformer
	handled  cache.ResourceEventHandlerRegistration
}

// New returns an Agent that does nothing until Run.
func New(config Config) (*Agent, error) {
	if config.Cluster == "" || config.Hub == nil || config.WEC == nil || config.Clock == nil ||
		config.Reports.Interval <= 0 || config.Reports.Burst <= 0 {
		return nil, errors.New("agent: Cluster, Hub, WEC, Reports and Clock are required")
	}
	a := &Agent{
		config:   config,
		index:    newIndex(config.Excluded),
		wanted:   dynamicinformer.NewWanted(),
		kinds:    newKinds(),
		refusals: newRefusals(),
		refresh:  make(chan struct{}, 1),
		pace:     pace.New(eachReport, config.Reports, betweenReports),
		written:  map[string]record{},
		since:    map[string]time.Time{},
		changed:  map[objref.Ref]change{},
		limits:   map[string]int{},
	}
	metrics.Register(activation, reporting)
	a.queue = worker.New(worker.Config{
		Name: Name, Clock: config.Clock, MinBackOff: 10 * time.Millisecond, MaxBackOff: maxRetryDelay,
		Quiet: func(err error) bool { return a.hubUnreachable.Load() || apierrors.IsNotFound(err) }, // hubWatchFailed has logged it; or the watch is behind
	}, a.sync)
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
	a.hubWriter, errs[2] = writer.New(a.config.Hub, "hub", Name)
	a.wecWriter, errs[3] = writer.New(a.config.WEC, "wec", Name)
	a.wec, errs[4] = dynamic.NewForConfig(dynamicinformer.WithoutRetries(a.config.WEC))
	a.wecKinds, errs[5] = newServed(a.config.WEC, a.wec)
	wecWorks, err := workclient.NewForConfig(a.config.WEC)
	if err := errors.Join(append(errs[:], err)...); err != nil {
		return fmt.Errorf("build clients: %w", err)
	}

	applied, err := client.NewInformer(wecWorks.WorkV1().AppliedManifestWorks(), &workv1.AppliedManifestWork{}, nil)
	if err != nil {
		return fmt.Errorf("build informer for AppliedManifestWorks: %w", err)
	}
	a.applied, err = observe("AppliedManifestWorks", applied, reduceApplied, handler(a, a.index.setApplied, a.index.deleteApplied))
	if err != nil {
		return err
	}
	// All works of the mailbox, not just ours: that distinguishes a work that is not ours from one
	// that was not observed yet.
	a.works, err = observe("ManifestWorks", metadatainformer.NewFilteredMetadataInformer(hubMetadata, manifestWorks, a.config.Cluster, 0,
		cache.Indexers{}, nil).Informer(), reduceWork, handler(a, a.setWork, a.index.deleteWork))
	if err != nil {
		return err
	}
	mailbox, err := client.NewInformer(a.hub.WorkStatuses(a.config.Cluster), &controlv1alpha1.WorkStatus{}, nil)
	if err != nil {
		return fmt.Errorf("build informer for WorkStatuses: %w", err)
	}
	a.mailbox, err = observe("WorkStatuses", mailbox, reduceReport, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.queue.Add(nameOf(obj)) },
		UpdateFunc: func(_, obj any) { a.queue.Add(nameOf(obj)) },
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
	a.objects, err = dynamicinformer.New(dynamicinformer.Config{
		Source: a.wanted, Informer: dynamicinformer.DynamicInformer(a.wec, reduceObject), Handler: a, Failed: a.watchFailed,
	})
	return err
}

// setWork adds or updates a ManifestWork of the mailbox.
func (a *Agent) setWork(w metav1.Object) []string {
	if w.GetName() == statusagent.KindsWork {
		// Written, or applied in the cluster: in both cases its generation or its status changed.
		a.refusals.forget()
		a.refreshWanted()
	}
	return a.index.setWork(w)
}

// watchFailed records that a list or watch of a resource of the WEC failed.
func (a *Agent) watchFailed(resource dynamicinformer.Resource, err error) {
	a.kinds.failed(resource, err)
	if apierrors.IsForbidden(err) {
		a.refusals.add(resource.GroupResource(), a.config.Clock.Now())
		a.refreshWanted()
	}
}

// handler returns a handler that changes the index, and requeues the affected objects.
func handler[T metav1.Object](a *Agent, set func(T) []string, remove func(name string) []string) cache.ResourceEventHandler {
	changed := func(obj any) {
		if o, ok := obj.(T); ok {
			a.worksChanged(set(o))
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, obj any) { changed(obj) },
		DeleteFunc: func(obj any) { a.worksChanged(remove(nameOf(obj))) },
	}
}

func observe(what string, informer cache.SharedIndexInformer, transform cache.TransformFunc, handler cache.ResourceEventHandler) (watched, error) {
	handled, err := informer.AddEventHandler(handler)
	if err := errors.Join(informer.SetTransform(transform), err); err != nil {
		return watched{}, fmt.Errorf("watch %s: %w", what, err)
	}
	return watched{what: what, informer: informer, handled: handled}, nil
}

// Run works until the context ends, and waits for its workers.
func (a *Agent) Run(ctx context.Context, workers int) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues(logging.Cluster, a.config.Cluster))
	defer reportLag.Add(a.lags)()
	defer abandonedWorks.Add(a.abandoned)()
	var running sync.WaitGroup
	defer running.Wait()
	for _, w := range []watched{a.applied, a.works, a.mailbox} {
		running.Go(func() { w.informer.RunWithContext(ctx) })
	}
	running.Go(func() { _ = a.objects.Run(ctx) })
	running.Go(func() { a.followWanted(ctx) })
	running.Go(func() { a.followKinds(ctx) })
	running.Go(func() { a.heartbeat(ctx) })
	a.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is. Resources of the WEC do not
// count: one that is no longer served does not keep the agent from reporting on the others.
func (a *Agent) Ready() error {
	var syncs worker.Syncs
	for _, w := range []watched{a.applied, a.works, a.mailbox} {
		syncs = append(syncs, worker.Synced{Name: w.what, HasSynced: w.handled.HasSynced})
	}
	return syncs.Ready()
}

// synced reports whether the works and the mailbox have synced. Before that, nothing is decided.
func (a *Agent) synced() bool { return a.Ready() == nil }

// followWanted updates the wanted resources, those of our works: none before all works were read,
// then at once when they change, and those again that the agent was not allowed to read.
func (a *Agent) followWanted(ctx context.Context) {
	if wait.PollUntilContextCancel(ctx, syncPoll, true, func(context.Context) (bool, error) { return a.synced(), nil }) != nil {
		return
	}
	a.enqueueAll(schema.GroupResource{})
	for {
		resources := a.kinds.withoutGone(a.index.wanted(a.reportedResources()))
		now := a.config.Clock.Now()
		a.wanted.Set(a.refusals.without(resources, now))
		var again <-chan time.Time
		if wait := a.refusals.next(now); wait > 0 {
			again = a.config.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.refresh:
		case <-again:
		}
	}
}

// enqueueAll requeues all objects of a resource, or all objects if it is empty: those that works
// hold, and those that are reported.
func (a *Agent) enqueueAll(gr schema.GroupResource) {
	for _, name := range a.index.all(gr) {
		a.queue.Add(name)
	}
	for _, item := range a.mailbox.informer.GetStore().List() {
		if r, ok := item.(*report); ok && (gr.Empty() || r.source.Group == gr.Group && r.source.Resource == gr.Resource) {
			a.queue.Add(r.Name)
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

// worksChanged requeues the objects of works that changed.
func (a *Agent) worksChanged(names []string) {
	if len(names) == 0 {
		return
	}
	for _, name := range names {
		a.queue.Add(name)
	}
	a.refreshWanted()
}

// refreshWanted requests an update of the wanted resources.
func (a *Agent) refreshWanted() {
	select {
	case a.refresh <- struct{}{}:
	default: // a refresh is due already
	}
}

// OnChange implements dynamicinformer.Handler.
func (a *Agent) OnChange(resource dynamicinformer.Resource, before, after metav1.Object) {
	obj := after
	if obj == nil {
		obj = before
	}
	ref := objref.New(resource.GroupResource(), obj.GetNamespace(), obj.GetName())
	name, held := a.index.name(ref)
	if a.objects.Synced(resource.GroupResource()) { // objects that existed before did not change now
		was, _ := before.(*reported)
		is, _ := after.(*reported)
		a.recordActivation(ref, was, is, held)
	}
	if !held {
		return
	}
	a.mu.Lock()
	if _, ok := a.since[name]; !ok {
		a.since[name] = a.config.Clock.Now()
	}
	a.mu.Unlock()
	a.queue.Add(name)
}

// OnSynced implements dynamicinformer.Handler.
func (a *Agent) OnSynced(resource dynamicinformer.Resource) { a.enqueueAll(resource.GroupResource()) }

// OnStopped implements dynamicinformer.Handler.
func (a *Agent) OnStopped(resource dynamicinformer.Resource) { a.enqueueAll(resource.GroupResource()) }

func nameOf(obj any) string {
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		return ""
	}
	return name.Name
}
