package binding

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/write"
)

// Required are the resources that the WDS must serve before Setup.
var Required = []schema.GroupVersionResource{controlv1alpha1.BindingPolicies, controlv1alpha1.Bindings}

// SetupConfig is what Setup needs.
type SetupConfig struct {
	// WDS leads to the WDS; WDSName is what metrics call it.
	WDS     *rest.Config
	WDSName string
	// Inventories are the ITSes; see ConnectITS.
	Inventories []Inventory
	// APIGroups are those whose objects may be workload; empty for all. CustomResourceDefinitions always may.
	APIGroups []string
	// IncludeGenerated lets objects be workload that controllers make in each namespace of each cluster.
	IncludeGenerated bool
	// MaxBindingSize is how large a Binding becomes before another one begins, in bytes of JSON.
	MaxBindingSize int
}

// Running is a Controller with everything that it stands on. Others in the process may share these parts.
type Running struct {
	// Index says which policies select which objects and clusters.
	Index *match.Index
	// Objects holds the metadata of all objects of the WDS that may be workload.
	Objects *dynwatch.Set
	// Writer writes to the WDS.
	Writer *write.Writer

	controller *Controller
	discovery  *dynwatch.Discovery
	handlers   *handlers
	record     func(context.Context) error
}

// Setup builds a Controller on a WDS. It talks to nobody yet.
func Setup(config SetupConfig) (*Running, error) {
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config.WDS)
	if err != nil {
		return nil, fmt.Errorf("build discovery client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(config.WDS)
	if err != nil {
		return nil, fmt.Errorf("build dynamic client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config.WDS)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	controlClient, err := client.New(config.WDS)
	if err != nil {
		return nil, err
	}
	policies, err := client.NewInformer(controlClient.BindingPolicies(), &controlv1alpha1.BindingPolicy{}, nil)
	if err != nil {
		return nil, err
	}
	bindings, err := client.NewInformer(controlClient.Bindings(), &controlv1alpha1.Binding{}, nil)
	if err != nil {
		return nil, err
	}
	writer, err := write.New(config.WDS, config.WDSName, "binding-controller")
	if err != nil {
		return nil, err
	}

	recorder, record, err := client.NewRecorder(config.WDS, "starling-binding-controller", controlv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}

	selectable := func(gr schema.GroupResource) bool { return selectable(config.APIGroups, gr) }
	r := &Running{Index: match.NewIndex(), Writer: writer, handlers: &handlers{}, record: record}
	tests.index.Store(r.Index)
	if config.IncludeGenerated {
		r.Index.IncludeGenerated()
	}
	r.discovery = dynwatch.NewDiscovery(discoveryClient, dynamicClient, func(resource dynwatch.Resource) bool {
		gr := resource.GroupResource()
		return selectable(gr) || gr == schema.GroupResource{Resource: "namespaces"} // their labels select
	})
	r.controller, err = New(Config{
		Policies:    policies,
		Bindings:    bindings,
		Inventories: config.Inventories,
		API:         r.discovery,
		Selectable:  selectable,
		Index:       r.Index,
		Writer:      writer,
		Events:      recorder,
		Live: func(ctx context.Context, policy *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error) {
			return liveBindings(ctx, controlClient, policy)
		},
		MaxBindingSize: config.MaxBindingSize,
		Clock:          clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	r.AddHandler(r.controller)
	r.Objects, err = dynwatch.New(dynwatch.Config{
		Source: r.discovery, Informer: dynwatch.MetadataInformer(metadataClient), Handler: r.handlers,
	})
	return r, err
}

// liveBindings reads the Bindings of a policy from the API server.
func liveBindings(ctx context.Context, c *client.Client, policy *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error) {
	list, err := c.Bindings().List(ctx, metav1.ListOptions{LabelSelector: controlv1alpha1.LabelOverflowOf + "=" + string(policy.UID)})
	if err != nil {
		return nil, err
	}
	live := make([]*controlv1alpha1.Binding, 0, len(list.Items)+1)
	for i := range list.Items {
		live = append(live, &list.Items[i])
	}
	first, err := c.Bindings().Get(ctx, policy.Name, metav1.GetOptions{})
	if ignoreNotFound(err) != nil {
		return nil, err
	}
	if err == nil {
		live = append(live, first)
	}
	return slices.DeleteFunc(live, func(b *controlv1alpha1.Binding) bool { return !ownedBy(b, string(policy.UID)) }), nil
}

// AddHandler has another be told of the objects of the WDS. Call it before Run.
func (r *Running) AddHandler(handler dynwatch.Handler) { *r.handlers = append(*r.handlers, handler) }

// Run works until the context ends. Without workers it keeps the Index up to date and writes nothing.
func (r *Running) Run(ctx context.Context, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.record(ctx) })
	group.Go(func() error { return r.discovery.Run(ctx) })
	group.Go(func() error { return r.Objects.Run(ctx) })
	group.Go(func() error { return r.controller.Run(ctx, workers) })
	return group.Wait()
}

// Ready tells what was not read yet, and why as far as that is known; nil if nothing.
func (r *Running) Ready() error {
	err := r.controller.Ready()
	if err == nil {
		return nil
	}
	reasons := []error{err}
	if err := r.discovery.Err(); err != nil {
		reasons = append(reasons, err)
	}
	for _, state := range r.Objects.Resources() {
		if !state.Synced && state.Err != "" {
			reasons = append(reasons, fmt.Errorf("%s: %s", state.GroupResource(), state.Err))
		}
	}
	return errors.Join(reasons...)
}

// selectable tells whether objects of a resource may be workload.
func selectable(groups []string, gr schema.GroupResource) bool {
	if match.NeverResource(gr) {
		return false
	}
	return len(groups) == 0 || gr.Group == "apiextensions.k8s.io" || slices.Contains(groups, gr.Group)
}

// ConnectITS returns an Inventory that waits for an ITS: to be reached, and to serve ManagedClusters.
func ConnectITS(name string, options clusters.Options) Inventory {
	return Inventory{Name: name, Connect: func(ctx context.Context) (*Connection, error) {
		space, err := clusters.WaitConnected(ctx, name, options)
		if err != nil {
			return nil, err
		}
		if err := clusters.WaitForResources(ctx, space, ManagedClusters); err != nil {
			return nil, err
		}
		return NewConnection(name, space.Config)
	}}
}

// handlers are told one after the other.
type handlers []dynwatch.Handler

func (h *handlers) OnChange(r dynwatch.Resource, before, after metav1.Object) {
	for _, handler := range *h {
		handler.OnChange(r, before, after)
	}
}

func (h *handlers) OnSynced(r dynwatch.Resource) {
	for _, handler := range *h {
		handler.OnSynced(r)
	}
}

func (h *handlers) OnStopped(r dynwatch.Resource) {
	for _, handler := range *h {
		handler.OnStopped(r)
	}
}
