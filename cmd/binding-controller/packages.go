package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/repositories"
	"github.com/starlinghq/starling/pkg/controller/variants"
	"github.com/starlinghq/starling/pkg/controller/variantsets"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/runner"
)

// packageController is one of those that --controllers=packages runs.
type packageController interface {
	Run(ctx context.Context, workers int) error
	Ready() error
}

// packageControllers makes them all; they share what they watch.
func packageControllers(
	o *options, wds *clusters.Space, watch *packagewatch.Informers, bindings *packagewatch.Bindings, found *inventory.Reader,
) ([]packageController, error) {
	repositoriesController, err := repositories.Setup(repositories.SetupConfig{
		WDS: wds.Config, WDSName: wds.Name, Watch: watch, FileRoots: o.fileRoots,
	})
	if err != nil {
		return nil, err
	}
	reached := runner.Killer(os.Getenv(runner.KillVariable))
	variantsController, err := variants.Setup(variants.SetupConfig{
		WDS: wds.Config, WDSName: wds.Name, Watch: watch, Bindings: bindings, InjectedKinds: parseKinds(o.injectedKinds), Reached: reached,
	})
	if err != nil {
		return nil, err
	}
	setsController, err := variantsets.Setup(variantsets.SetupConfig{
		WDS: wds.Config, WDSName: wds.Name, Watch: watch, Clusters: found, TargetKinds: parseKinds(o.targetKinds), Reached: reached,
	})
	if err != nil {
		return nil, err
	}
	deploying, err := deploymentControllers(o, wds, watch, bindings, found, reached)
	if err != nil {
		return nil, err
	}
	return append([]packageController{repositoriesController, variantsController, setsController}, deploying...), nil
}

// parseKinds parses kinds as flags name them: Kind.group.
func parseKinds(texts []string) []schema.GroupKind {
	kinds := make([]schema.GroupKind, 0, len(texts))
	for _, text := range texts {
		kinds = append(kinds, schema.ParseGroupKind(text))
	}
	return kinds
}

// newInventory returns what reads the clusters of all ITSes; nil if there are none.
func newInventory(o *options) (*inventory.Reader, error) {
	if len(o.its) == 0 {
		return nil, nil //nolint:nilnil // packages may be kept without clusters
	}
	spaces := make([]inventory.Space, 0, len(o.its))
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		spaces = append(spaces, inventory.Connect(its.Name, options))
	}
	return inventory.New(spaces...), nil
}

// startPackages starts what looks after packages, as soon as the WDS serves them, and returns what tells whether it is ready.
func startPackages(ctx context.Context, group *errgroup.Group, o *options, wds *clusters.Space) (ready func() error) {
	var running atomic.Pointer[[]packageController]
	group.Go(func() error {
		if err := clusters.WaitForResources(ctx, wds, slices.Concat(packagewatch.Required, repositories.Required, binding.Required)...); err != nil {
			return err
		}
		watch, err := packagewatch.New(wds.Config)
		if err != nil {
			return err
		}
		bindings, err := packagewatch.NewBindings(wds.Config)
		if err != nil {
			return err
		}
		found, err := newInventory(o)
		if err != nil {
			return err
		}
		controllers, err := packageControllers(o, wds, watch, bindings, found)
		if err != nil {
			return err
		}
		running.Store(&controllers)
		for _, controller := range controllers { // all have added their handlers
			group.Go(func() error { return controller.Run(ctx, o.concurrency) })
		}
		group.Go(func() error { bindings.Informer.RunWithContext(ctx); return nil })
		if found != nil {
			group.Go(func() error { return found.Run(ctx) })
		}
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
