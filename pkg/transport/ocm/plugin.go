package ocm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport"
	"github.com/starlinghq/starling/pkg/write"
)

// Resources that the plugin uses.
var (
	ManifestWorks   = schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks")
	ManagedClusters = schema.GroupVersion(clusterv1.GroupVersion).WithResource("managedclusters")
)

// FieldManager is the field manager of the plugin's writes.
const FieldManager = "transport-controller"

// Config is what a Plugin is made of. All fields are required.
type Config struct {
	// Space is the name of the inventory and transport space; for metrics.
	Space string
	// Hub leads to it.
	Hub *rest.Config
	// WDSName is the name of the WDS; it identifies nothing.
	WDSName string
	// WDSUID identifies the WDS.
	WDSUID types.UID
}

// Plugin is the transport plugin for OCM.
type Plugin struct {
	config    Config
	works     workclient.Interface
	clusters  clusterclient.Interface
	core      kubernetes.Interface
	control   *client.Client
	writer    *write.Writer
	manifests *manifests
}

var _ transport.Plugin = (*Plugin)(nil)

// New returns a Plugin. It talks to no API server.
func New(config Config) (*Plugin, error) {
	if config.Space == "" || config.Hub == nil || config.WDSName == "" || config.WDSUID == "" {
		return nil, errors.New("ocm: Space, Hub, WDSName and WDSUID are required")
	}
	works, err := workclient.NewForConfig(config.Hub)
	if err != nil {
		return nil, fmt.Errorf("build client for ManifestWorks: %w", err)
	}
	clusters, err := clusterclient.NewForConfig(config.Hub)
	if err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	core, err := kubernetes.NewForConfig(config.Hub)
	if err != nil {
		return nil, fmt.Errorf("build client for ConfigMaps: %w", err)
	}
	control, err := client.New(config.Hub)
	if err != nil {
		return nil, err
	}
	writer, err := write.New(config.Hub, config.Space, FieldManager)
	if err != nil {
		return nil, err
	}
	return &Plugin{config: config, works: works, clusters: clusters, core: core, control: control, writer: writer, manifests: newManifests()}, nil
}

// Run implements transport.Plugin.
func (p *Plugin) Run(ctx context.Context, handler transport.Handler) error {
	works, err := p.workInformer()
	if err != nil {
		return err
	}
	clusters, err := p.clusterInformer()
	if err != nil {
		return err
	}
	worksTold, err := works.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { tellWork(handler, nil, obj) },
		UpdateFunc: func(before, after any) { tellWork(handler, before, after) },
		DeleteFunc: func(obj any) { tellWork(handler, obj, nil) },
	})
	if err != nil {
		return fmt.Errorf("watch ManifestWorks: %w", err)
	}
	destinations, clustersTold, err := p.destinations(handler, clusters)
	if err != nil {
		return err
	}
	reports, reportsTold, err := p.reportInformer(handler)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	running.Go(func() { reports.RunWithContext(ctx) })
	running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), reportsTold.HasSynced) {
			handler.OnReports(transport.ReportsRead)
		}
	})
	running.Go(func() { works.RunWithContext(ctx) })
	running.Go(func() { clusters.RunWithContext(ctx) })
	running.Go(func() { destinations.run(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), worksTold.HasSynced, clustersTold.HasSynced) {
		handler.OnSynced()
	}
	running.Wait()
	return nil
}

// workInformer returns an informer on the ManifestWorks of all WDSes, which holds *kept.
func (p *Plugin) workInformer() (cache.SharedIndexInformer, error) {
	client := p.works.WorkV1().ManifestWorks(metav1.NamespaceAll)
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = everyWDS
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = everyWDS
			return watchWorks(ctx, p.works.WorkV1().RESTClient(), o)
		},
	}, &workv1.ManifestWork{}, 0, cache.Indexers{})
	err := informer.SetTransform(func(obj any) (any, error) {
		if work, ok := obj.(*workv1.ManifestWork); ok {
			return p.keep(work), nil
		}
		return obj, nil
	})
	return informer, err
}

// Do implements transport.Plugin.
func (p *Plugin) Do(ctx context.Context, origin transport.Origin, a *plan.Action) (transport.Receipt, error) {
	target := write.Target{Resource: ManifestWorks, Namespace: a.Mailbox, Name: a.Name}
	var answer *metav1.PartialObjectMetadata
	var recorded transform.Hash
	var err error
	switch a.Verb {
	case plan.Create:
		var work *workv1.ManifestWork
		if work, recorded, err = p.manifestWork(origin, a); err == nil {
			answer, err = p.writer.Create(ctx, target, work, a.Reason)
		}
	case plan.Patch:
		var patch []byte
		if patch, recorded, err = p.patch(origin, a); err == nil {
			answer, err = p.writer.Patch(ctx, target, types.JSONPatchType, patch, a.Reason)
		}
	case plan.Nudge:
		var patch []byte
		if patch, err = nudge(a); err == nil {
			answer, err = p.writer.Patch(ctx, target, types.JSONPatchType, patch, a.Reason)
		}
	case plan.Delete:
		err = p.writer.Delete(ctx, target, a.UID, a.Reason)
		if apierrors.IsNotFound(err) {
			err = nil
		}
	default:
		err = fmt.Errorf("unknown verb %q", a.Verb)
	}
	if err != nil {
		if stale(a, err) {
			err = fmt.Errorf("%w: %w", transport.ErrStale, err)
		}
		return transport.Receipt{}, err
	}
	if answer == nil {
		return transport.Receipt{}, nil
	}
	return transport.Receipt{UID: answer.UID, Generation: answer.Generation, Recorded: recorded}, nil
}

// stale tells whether a write was refused because the work is not what was planned on: it is gone, or is another one, or a
// test of the patch did not hold. The API server answers a failed test like invalid content, but says no field.
func stale(a *plan.Action, err error) bool {
	if a.Verb == plan.Create {
		return false // a mailbox that is not there is no view that was too old
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || a.Verb == plan.Delete {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusUnprocessableEntity && (s.Details == nil || len(s.Details.Causes) == 0)
}

func tellWork(handler transport.Handler, before, after any) {
	old, current := workOf(before), workOf(after)
	if old != nil && current != nil && same(old, current) || old == nil && current == nil {
		return
	}
	handler.OnWork(old, current)
}
