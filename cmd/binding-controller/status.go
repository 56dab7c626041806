package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/combinedstatus"
	"github.com/starlinghq/starling/pkg/controller/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
)

// startStatus starts the controllers that return status into objects and CombinedStatuses. It
// returns what they observe of the Bindings, and the readiness check of all of it, and of the
// Bindings.
func startStatus(
	ctx context.Context, leading <-chan struct{}, group *errgroup.Group, o *options, wds *spaces.Space, bindings *binding.Running,
	collectors *combinedstatus.Collectors, found *clusters.Reader,
) (observers binding.Observers, ready func() error, err error) {
	read, err := newReports(o, wds, found)
	if err != nil {
		return observers, nil, err
	}
	objects, err := dynamic.NewForConfig(wds.Config)
	if err != nil {
		return observers, nil, fmt.Errorf("build dynamic client: %w", err)
	}
	statuses, err := newStatus(bindings, read, objects)
	if err != nil {
		return observers, nil, err
	}
	combinations, err := newCombined(wds, bindings, read, collectors, objects)
	if err != nil {
		return observers, nil, err
	}

	group.Go(func() error { return read.Run(ctx, statuses, combinations) })
	write := func(run func(context.Context) error) {
		group.Go(func() error { return runner.WhenLeading(run)(ctx, leading) })
	}
	write(func(ctx context.Context) error { return statuses.Run(ctx, o.concurrency) })
	write(func(ctx context.Context) error {
		return collectors.Run(ctx, 1, bindings.OnCollector, combinations.OnCollector)
	})
	write(func(ctx context.Context) error { return combinations.Run(ctx, o.concurrency) })
	observers = binding.Observers{Index: []binding.Observer{statuses, combinations}, Objects: []dynamicinformer.Handler{statuses}}
	return observers, func() error { return errors.Join(bindings.Ready(), read.Ready(), combinations.Ready()) }, nil
}

// newReports returns the reader of the WorkStatuses of all ITSes, for all controllers.
func newReports(o *options, wds *spaces.Space, found *clusters.Reader) (*statusreports.Reader, error) {
	inventories := map[string]*client.Client{}
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		config, err := options.Load()
		if err != nil {
			return nil, err
		}
		inventories[its.Name], err = client.New(config)
		if err != nil {
			return nil, err
		}
	}
	return statusreports.New(inventories, wds.UID, found)
}

func newStatus(bindings *binding.Running, read *statusreports.Reader, objects dynamic.Interface) (*status.Controller, error) {
	return status.New(status.Config{
		Reports:      read,
		Requests:     bindings.Index,
		Objects:      bindings.Objects,
		Client:       objects,
		Writer:       bindings.Writer,
		Versions:     bindings,
		StatusErrors: bindings,
		Clock:        clock.RealClock{},
	})
}

// newCollectors returns the StatusCollectors of the WDS.
func newCollectors(wds *spaces.Space) (*combinedstatus.Collectors, error) {
	wdsClient, err := client.New(wds.Config)
	if err != nil {
		return nil, err
	}
	found, err := client.NewInformer(wdsClient.StatusCollectors(), &controlv1alpha1.StatusCollector{}, nil)
	if err != nil {
		return nil, fmt.Errorf("build informer for StatusCollectors: %w", err)
	}
	wdsWriter, err := writer.New(wds.Config, wds.Name, "binding-controller")
	if err != nil {
		return nil, err
	}
	return combinedstatus.NewCollectors(found, wdsWriter, clock.RealClock{})
}

func newCombined(
	wds *spaces.Space, bindings *binding.Running, read *statusreports.Reader, collectors *combinedstatus.Collectors, objects dynamic.Interface,
) (*combinedstatus.Controller, error) {
	wdsClient, err := client.New(wds.Config)
	if err != nil {
		return nil, err
	}
	stored, err := combinedstatus.NewInformer(wdsClient)
	if err != nil {
		return nil, fmt.Errorf("build informer for CombinedStatuses: %w", err)
	}
	return combinedstatus.New(combinedstatus.Config{
		Collections:      bindings.Index,
		Resource:         bindings.Objects.Resource,
		Gone:             bindings.Discovery.Gone,
		Reports:          read,
		Collectors:       collectors,
		CombinedStatuses: stored,
		Client:           objects,
		Writer:           bindings.Writer,
		Clock:            clock.RealClock{},
	})
}
