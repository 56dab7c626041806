package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/packages/repositories"
	"github.com/starlinghq/starling/pkg/controller/packages/variants"
	"github.com/starlinghq/starling/pkg/controller/packages/variantsets"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/spaces"
)

// packageController is one of those that --controllers=packages runs.
type packageController interface {
	Run(ctx context.Context, workers int) error
	Ready() error
}

// packageControllers returns all of them; they share what they watch, and the recorder.
func packageControllers(
	o *options, wds *spaces.Space, watch *informers.Informers, bindings *informers.Bindings, found *clusters.Reader, recorder events.EventRecorder,
) ([]packageController, error) {
	repositoriesController, err := repositories.New(repositories.Config{
		WDS: wds.Config, WDSName: wds.Name, Watch: watch, FileRoots: o.fileRoots, Hosts: o.repositoryHosts,
	})
	if err != nil {
		return nil, err
	}
	variantsController, err := variants.New(variants.Config{
		WDS: wds.Config, WDSName: wds.Name, Watch: watch, Bindings: bindings, InjectedKinds: parseKinds(o.injectedKinds), Events: recorder,
	})
	if err != nil {
		return nil, err
	}
	setsController, err := variantsets.New(variantsets.Config{
		WDS: wds.Config, WDSName: wds.Name, Watch: watch, Clusters: found, TargetKinds: parseKinds(o.targetKinds),
	})
	if err != nil {
		return nil, err
	}
	delivering, err := deliveryControllers(o, wds, watch, bindings, found, recorder)
	if err != nil {
		return nil, err
	}
	return append([]packageController{repositoriesController, variantsController, setsController}, delivering...), nil
}

// parseKinds parses kinds as flags name them: Kind.group.
func parseKinds(texts []string) []schema.GroupKind {
	kinds := make([]schema.GroupKind, 0, len(texts))
	for _, text := range texts {
		kinds = append(kinds, schema.ParseGroupKind(text))
	}
	return kinds
}

// startPackages starts the controllers of packages as soon as the WDS serves packages. It returns
// their readiness check.
func startPackages(ctx context.Context, group *errgroup.Group, o *options, wds *spaces.Space, found *clusters.Reader) (ready func() error) {
	var running atomic.Pointer[[]packageController]
	group.Go(func() error {
		if err := spaces.WaitForResources(ctx, wds, slices.Concat(informers.Required, repositories.Required, binding.Required)...); err != nil {
			return err
		}
		watch, err := informers.New(wds.Config)
		if err != nil {
			return err
		}
		bindings, err := informers.NewBindings(wds.Config)
		if err != nil {
			return err
		}
		recorder, record, err := client.NewRecorder(wds.Config, "starling-binding-controller", configv1alpha1.AddToScheme, controlv1alpha1.AddToScheme)
		if err != nil {
			return err
		}
		controllers, err := packageControllers(o, wds, watch, bindings, found, recorder)
		if err != nil {
			return err
		}
		running.Store(&controllers)
		for _, controller := range controllers { // all have added their handlers
			group.Go(func() error { return controller.Run(ctx, o.concurrency) })
		}
		group.Go(func() error { return record(ctx) })
		group.Go(func() error { bindings.Informer.RunWithContext(ctx); return nil })
		return watch.Run(ctx)
	})
	return func() error {
		controllers := running.Load()
		if controllers == nil {
			return errors.New("waiting for the WDS to serve packages")
		}
		var notYet []error
		for _, controller := range *controllers {
			notYet = append(notYet, controller.Ready())
		}
		return errors.Join(notYet...)
	}
}
