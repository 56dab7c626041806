package main

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
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
			wait("to serve BindingPolicies and Bindings")
			if err := clusters.WaitForResources(ctx, wds, binding.Required...); err != nil {
				return err
			}
			return runControllers(ctx, o, wds, func(f func() error) { ready.Store(&f) })
		},
	})
}

func runControllers(ctx context.Context, o *options, wds *clusters.Space, ready func(func() error)) error {
	inventories := make([]binding.Inventory, 0, len(o.its))
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return err
		}
		inventories = append(inventories, binding.ConnectITS(its.Name, options))
	}
	bindings, err := binding.Setup(binding.SetupConfig{
		WDS: wds.Config, WDSName: wds.Name, Inventories: inventories, APIGroups: o.apiGroups, IncludeGenerated: o.generated,
		MaxBindingSize: o.bindingSize,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	isReady := bindings.Ready
	if o.runs(status.Name) {
		if isReady, err = startStatus(ctx, group, o, wds, bindings); err != nil {
			return err
		}
	}
	workers := 0 // the status controller alone needs the index, not the Bindings
	if o.runs(binding.Name) {
		workers = o.concurrency
	}
	group.Go(func() error { return bindings.Run(ctx, workers) })
	ready(isReady)
	return group.Wait()
}
