package binding

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
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
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/writer"
)

// Required are the resources that the WDS must serve before Setup.
var Required = []schema.GroupVersionResource{controlv1alpha1.BindingPolicies, controlv1alpha1.Bindings}

// SetupConfig is what Setup needs.
type SetupConfig struct {
	// WDS connects to the WDS; WDSName is its name in metrics.
	WDS     *rest.Config
	WDSName string
	// Clusters reads the clusters of all ITSes. Its owner runs it.
	Clusters *clusters.Reader
	// Collectors has policies report whether their StatusCollectors exist; nil does not.
	Collectors Collectors
	// Settings are which objects may be workload, and how large Bindings become.
	Settings settings.Bindings
}

// Running is a Controller with everything that it needs. Other controllers of the process share
// these parts.
type Running struct {
	// Index knows which policies select which objects and clusters.
	Index *match.Index
	// Objects holds the metadata of all objects of the WDS that may be workload.
	Objects *dynamicinformer.Set
	// Discovery knows what the WDS serves.
	Discovery *dynamicinformer.Discovery
	// Writer writes to the WDS.
	Writer *writer.Writer

	controller *Controller
	record     func(context.Context) error
}

// Setup builds a Controller on a WDS. It sends no request yet.
func Setup(config SetupConfig) (*Running, error) {
	discoveryClient, discoveryErr := discovery.NewDiscoveryClientForConfig(config.WDS)
	dynamicClient, dynamicErr := dynamic.NewForConfig(config.WDS)
	metadataClient, metadataErr := metadata.NewForConfig(dynamicinformer.WithoutRetries(config.WDS))
	controlClient, controlErr := client.New(config.WDS)
	if err := errors.Join(discoveryErr, dynamicErr, metadataErr, controlErr); err != nil {
		return nil, fmt.Errorf("build clients: %w", err)
	}
	policies, err := client.NewInformer(controlClient.BindingPolicies(), &controlv1alpha1.BindingPolicy{}, nil)
	if err != nil {
		return nil, err
	}
	bindings, err := client.NewInformer(controlClient.Bindings(), &controlv1alpha1.Binding{}, nil)
	if err != nil {
		return nil, err
	}
	writer, err := writer.New(config.WDS, config.WDSName, "binding-controller")
	if err != nil {
		return nil, err
	}

	recorder, record, err := client.NewRecorder(config.WDS, "starling-binding-controller", controlv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}

	selectable := config.Settings.Selectable
	r := &Running{Index: match.NewIndex(match.Options{IncludeGenerated: config.Settings.IncludeGenerated}), Writer: writer, record: record}
	tests.index.Store(r.Index)
	metrics.Register(tests)
	r.Discovery = dynamicinformer.NewDiscovery(discoveryClient, dynamicClient, func(resource dynamicinformer.Resource) bool {
		gr := resource.GroupResource()
		// The labels of Namespaces select. Policies report what they ask for and is not delivered.
		return selectable(gr) || gr == schema.GroupResource{Resource: "namespaces"} || match.Unsent(gr)
	})
	r.controller, err = New(Config{
		Policies:       policies,
		Bindings:       bindings,
		Clusters:       config.Clusters,
		Collectors:     config.Collectors,
		API:            r.Discovery,
		Selectable:     selectable,
		Index:          r.Index,
		Writer:         writer,
		Events:         recorder,
		Live:           newLive(controlClient, metadataClient),
		MaxBindingSize: config.Settings.MaxBindingSize,
		Clock:          clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	r.Objects, err = dynamicinformer.New(dynamicinformer.Config{
		Source: r.Discovery, Informer: dynamicinformer.MetadataInformer(metadataClient), Handler: r.controller,
		Failed: r.controller.onFailed, Recovered: r.controller.onRecovered,
	})
	return r, err
}

// Observers read a part of Running, and are notified of its changes.
type Observers struct {
	Index   []Observer
	Objects []dynamicinformer.Handler
}

// Run works until the context ends. Without workers, and until leading is closed, it updates the
// Index and writes nothing.
func (r *Running) Run(ctx context.Context, leading <-chan struct{}, workers int, observers Observers) error {
	r.controller.observers = observers.Index
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.record(ctx) })
	group.Go(func() error { return r.Discovery.Run(ctx) })
	group.Go(func() error { return r.Objects.Run(ctx, observers.Objects...) })
	group.Go(func() error { return r.controller.Run(ctx, leading, workers) })
	return group.Wait()
}

// Ready returns an error that lists what has not synced yet, and why as far as that is known.
func (r *Running) Ready() error {
	err := r.controller.Ready()
	if err == nil {
		return nil
	}
	reasons := []error{err}
	if err := r.Discovery.Err(); err != nil {
		reasons = append(reasons, err)
	}
	for _, state := range r.Objects.Resources() {
		if !state.Synced && state.Err != "" {
			reasons = append(reasons, fmt.Errorf("%s: %s", state.GroupResource(), state.Err))
		}
	}
	return errors.Join(reasons...)
}

// OnCollector enqueues the policies that name a StatusCollector, which came, went or changed.
func (r *Running) OnCollector(name string) { r.controller.onCollector(name) }

// StatusWriting records that the status of an object, or its labels about that, are about to be
// written, if the object still has that version. StatusWritten must follow.
func (r *Running) StatusWriting(ref objref.Ref, version string) { r.Index.StatusWriting(ref, version) }

// StatusWritten records which version such a write left; "" if it failed.
func (r *Running) StatusWritten(ref objref.Ref, version string) {
	r.controller.changed(r.Index.StatusWritten(ref, version))
}

// SetStatusError stores what keeps the status of an object from coming back, "" if nothing does.
// The policies that ask for the status report it.
func (r *Running) SetStatusError(ref objref.Ref, text string) {
	for _, policy := range r.controller.statusErrors.set(ref, text, r.Index.Asking(ref)) {
		r.controller.queue.Add(policy)
	}
}
