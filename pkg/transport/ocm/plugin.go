package ocm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/works"
	"github.com/starlinghq/starling/pkg/writer"
)

// ManifestWorks is the resource that the plugin writes.
var ManifestWorks = schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks")

// FieldManager is the field manager of the plugin's writes.
const FieldManager = "transport-controller"

// Config is what a Plugin is made of. All fields but Restored are required.
type Config struct {
	// Space is the name of the ITS, for metrics.
	Space string
	// Hub connects to the ITS.
	Hub *rest.Config
	// WDSName is the name of the WDS; it identifies nothing.
	WDSName string
	// WDSUID identifies the WDS.
	WDSUID types.UID
	// Restored is the ID of the last restoration of the ITS from a backup; empty if there was none.
	Restored string
	// ReportLimits bound what is kept of the reports of one cluster.
	ReportLimits mailboxes.Limits
}

// Plugin is the transport plugin for OCM.
type Plugin struct {
	config    Config
	works     workclient.Interface
	core      kubernetes.Interface
	control   *client.Client
	metadata  metadata.Interface
	writer    *writer.Writer
	manifests *works.Manifests
}

var _ plugin.Plugin = (*Plugin)(nil)

// New returns a Plugin. It makes no request.
func New(config Config) (*Plugin, error) {
	if config.Space == "" || config.Hub == nil || config.WDSName == "" || config.WDSUID == "" || config.ReportLimits == (mailboxes.Limits{}) {
		return nil, errors.New("ocm: Space, Hub, WDSName, WDSUID and ReportLimits are required")
	}
	metrics.Register(propertyMaps)
	ocmWorks, err := workclient.NewForConfig(config.Hub)
	if err != nil {
		return nil, fmt.Errorf("build client for ManifestWorks: %w", err)
	}
	core, err := kubernetes.NewForConfig(config.Hub)
	if err != nil {
		return nil, fmt.Errorf("build client for ConfigMaps: %w", err)
	}
	control, err := client.New(config.Hub)
	if err != nil {
		return nil, err
	}
	versions, err := metadata.NewForConfig(config.Hub)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	writer, err := writer.New(config.Hub, config.Space, FieldManager)
	if err != nil {
		return nil, err
	}
	return &Plugin{config: config, works: ocmWorks, core: core, control: control, metadata: versions, writer: writer, manifests: works.NewManifests(1 << 17)}, nil
}

// Run implements plugin.Plugin.
func (p *Plugin) Run(ctx context.Context, handler plugin.Handler) error {
	works, err := newInformer(everyWDS, p.works.WorkV1().ManifestWorks(metav1.NamespaceAll).List,
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return watchWorks(ctx, p.works.WorkV1().RESTClient(), o)
		}, &workv1.ManifestWork{}, func(work *workv1.ManifestWork) any { return newReduced(work, p.read(work)) })
	if err != nil {
		return err
	}
	clusters, err := clusters.NewInformer(p.config.Hub)
	if err != nil {
		return err
	}
	worksHandled, err := works.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { reportWork(handler, nil, obj) },
		UpdateFunc: func(before, after any) { reportWork(handler, before, after) },
		DeleteFunc: func(obj any) { reportWork(handler, obj, nil) },
	})
	if err != nil {
		return fmt.Errorf("watch ManifestWorks: %w", err)
	}
	destinations, clustersHandled, err := p.destinations(handler, clusters)
	if err != nil {
		return err
	}
	reports := newReports(p.config.WDSUID, p.config.ReportLimits, handler)
	defer reportsRefused.Add(reports.Refused)()
	var running sync.WaitGroup
	running.Go(func() { reports.Run(ctx, p.control) })
	running.Go(func() { works.RunWithContext(ctx) })
	running.Go(func() { clusters.RunWithContext(ctx) })
	running.Go(func() { destinations.run(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), worksHandled.HasSynced, clustersHandled.HasSynced) {
		handler.OnSynced()
	}
	running.Wait()
	return nil
}

// Restored implements plugin.Plugin.
func (p *Plugin) Restored() string { return p.config.Restored }

// Works implements plugin.Plugin.
func (p *Plugin) Works(ctx context.Context) (map[types.UID]int64, error) {
	ours := metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID + "=" + string(p.config.WDSUID)}
	list, err := p.metadata.Resource(ManifestWorks).List(ctx, ours)
	if err != nil {
		return nil, fmt.Errorf("list ManifestWorks: %w", err)
	}
	generations := make(map[types.UID]int64, len(list.Items))
	for i := range list.Items {
		generations[list.Items[i].UID] = list.Items[i].Generation
	}
	return generations, nil
}

// Content implements plugin.Plugin. It lists one work, because the transport-controller may list
// works and not get them.
func (p *Plugin) Content(ctx context.Context, of *plan.Work, ref objref.Ref) (transform.Object, error) {
	one := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, of.Name).String()}
	list, err := p.works.WorkV1().ManifestWorks(of.Mailbox).List(ctx, one)
	if err != nil {
		return transform.Object{}, fmt.Errorf("read ManifestWork: %w", err)
	}
	if len(list.Items) != 1 || list.Items[0].UID != of.UID || list.Items[0].Generation != of.Generation {
		return transform.Object{}, fmt.Errorf("read ManifestWork: it was changed meanwhile: %w", plugin.ErrStale)
	}
	return works.Content(&list.Items[0], ref)
}

// Do implements plugin.Plugin.
func (p *Plugin) Do(ctx context.Context, origin plugin.Origin, a *plan.Action) (plugin.Receipt, error) {
	target := writer.Target{Resource: ManifestWorks, Namespace: a.Mailbox, Name: a.Name}
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
		if a.ResourceVersion != "" {
			err = p.writer.DeleteVersion(ctx, target, a.UID, a.ResourceVersion, a.Reason)
		} else {
			err = p.writer.Delete(ctx, target, a.UID, a.Reason)
		}
		if apierrors.IsNotFound(err) {
			err = nil
		}
	default:
		err = fmt.Errorf("unknown verb %q", a.Verb)
	}
	if err != nil {
		if stale(a, err) {
			err = fmt.Errorf("%w: %w", plugin.ErrStale, err)
		}
		return plugin.Receipt{}, err
	}
	if answer == nil {
		return plugin.Receipt{}, nil
	}
	return plugin.Receipt{UID: answer.UID, Generation: answer.Generation, Recorded: recorded}, nil
}

// stale reports whether a write was refused because the work is not what was planned on: it is
// gone, or is another one, or a test of the patch failed. The API server answers a failed test like
// invalid content, but names no field.
func stale(a *plan.Action, err error) bool {
	if a.Verb == plan.Create {
		return false // a missing mailbox is no stale work
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

func reportWork(handler plugin.Handler, before, after any) {
	old, _ := valueOf[*plan.Work](before)
	current, _ := valueOf[*plan.Work](after)
	if old != nil && current != nil && same(old, current) || old == nil && current == nil {
		return
	}
	handler.OnWork(old, current)
}
