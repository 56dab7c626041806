package main

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/repositories"
	"github.com/starlinghq/starling/pkg/controller/status"
	"github.com/starlinghq/starling/pkg/runner"
)

// run runs the chosen controllers until the context ends.
func run(ctx context.Context, o *options) error {
	lease, err := o.wds.Load()
	if err != nil {
		return err
	}
	var ready atomic.Pointer[func() error]
	wait := func(what string) {
		notYet := func() error { return errors.New("waiting for the WDS " + what) }
		ready.Store(&notYet)
	}
	wait("to be led")
	return runner.Run(ctx, o.runner, runner.Program{
		Name:        "binding-controller",
		LeaseSuffix: o.leaseSuffix(),
		LeaseSpace:  lease,
		Ready:       func() error { return (*ready.Load())() },
		Run: func(ctx context.Context) error {
			wait("to answer")
			wds, err := clusters.WaitConnected(ctx, o.wdsName, o.wds)
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			isReady := func() error { return nil }
			if o.runs(repositories.Name) {
				// Policies do not wait for packages, nor packages for policies.
				isReady = startPackages(ctx, group, o, wds)
			}
			if o.runs(binding.Name) || o.runs(status.Name) {
				wait("to serve BindingPolicies and Bindings")
				bindingsReady, err := startControllers(ctx, group, o, wds)
				if err != nil {
					group.Go(func() error { return err }) // ends the others
					return group.Wait()
				}
				packagesReady := isReady
				isReady = func() error { return errors.Join(bindingsReady(), packagesReady()) }
			}
			ready.Store(&isReady)
			return group.Wait()
		},
	})
}

// startControllers starts what concerns policies, and returns what tells whether it is ready.
func startControllers(ctx context.Context, group *errgroup.Group, o *options, wds *clusters.Space) (ready func() error, err error) {
	if err := clusters.WaitForResources(ctx, wds, binding.Required...); err != nil {
		return nil, err
	}
	inventories := make([]binding.Inventory, 0, len(o.its))
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		inventories = append(inventories, binding.ConnectITS(its.Name, options))
	}
	bindings, err := binding.Setup(binding.SetupConfig{
		WDS: wds.Config, WDSName: wds.Name, Inventories: inventories, APIGroups: o.apiGroups, IncludeGenerated: o.generated,
		MaxBindingSize: o.bindingSize,
	})
	if err != nil {
		return nil, err
	}
	ready = bindings.Ready
	if o.runs(status.Name) {
		if ready, err = startStatus(ctx, group, o, wds, bindings); err != nil {
			return nil, err
		}
	}
	workers := 0 // the status controller alone needs the index, not the Bindings
	if o.runs(binding.Name) {
		workers = o.concurrency
	}
	group.Go(func() error { return bindings.Run(ctx, workers) })
	return ready, nil
}
