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
	"github.com/starlinghq/starling/pkg/controller/combined"
	"github.com/starlinghq/starling/pkg/controller/reports"
	"github.com/starlinghq/starling/pkg/controller/status"
)

// startStatus starts what brings status back: into objects, and into CombinedStatuses. It returns what tells whether all of it,
// and the Bindings, are ready.
func startStatus(ctx context.Context, group *errgroup.Group, o *options, wds *clusters.Space, bindings *binding.Running) (ready func() error, err error) {
	read, err := newReports(o, wds)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(wds.Config)
	if err != nil {
		return nil, fmt.Errorf("build dynamic client: %w", err)
	}
	statuses, err := newStatus(bindings, read, objects)
	if err != nil {
		return nil, err
	}
	bindings.AddHandler(statuses)
	bindings.Index.Observe(statuses)
	read.AddListener(statuses)

	collectors, combinations, err := newCombined(wds, bindings, read, objects)
	if err != nil {
		return nil, err
	}
	bindings.Index.ObserveCollections(combinations)
	read.AddListener(combinations)
	bindings.UseCollectors(collectors)
	collectors.OnChange(bindings.OnCollector)
	if err := bindings.OnPolicyReplaced(combinations.OnPolicy); err != nil {
		return nil, fmt.Errorf("watch BindingPolicies: %w", err)
	}

	group.Go(func() error { return read.Run(ctx) })
	group.Go(func() error { return statuses.Run(ctx, o.concurrency) })
	group.Go(func() error { return collectors.Run(ctx, 1) })
	group.Go(func() error { return combinations.Run(ctx, o.concurrency) })
	return func() error { return errors.Join(bindings.Ready(), read.Ready(), combinations.Ready()) }, nil
}

// newReports returns what reads the WorkStatuses of all ITSes, for all controllers.
func newReports(o *options, wds *clusters.Space) (*reports.Reader, error) {
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
	return reports.New(inventories, wds.UID)
}

func newStatus(bindings *binding.Running, read *reports.Reader, objects dynamic.Interface) (*status.Controller, error) {
	return status.New(status.Config{
		Reports:  read,
		Requests: bindings.Index,
		Objects:  bindings.Objects,
		Client:   objects,
		Writer:   bindings.Writer,
		Troubles: bindings,
		Clock:    clock.RealClock{},
	})
}

func newCombined(wds *clusters.Space, bindings *binding.Running, read *reports.Reader, objects dynamic.Interface) (*combined.Collectors, *combined.Controller, error) {
	wdsClient, err := client.New(wds.Config)
	if err != nil {
		return nil, nil, err
	}
	found, err := client.NewInformer(wdsClient.StatusCollectors(), &controlv1alpha1.StatusCollector{}, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("build informer for StatusCollectors: %w", err)
	}
	collectors, err := combined.NewCollectors(found, bindings.Writer, clock.RealClock{})
	if err != nil {
		return nil, nil, err
	}
	stored, err := combined.NewInformer(wdsClient)
	if err != nil {
		return nil, nil, fmt.Errorf("build informer for CombinedStatuses: %w", err)
	}
	controller, err := combined.New(combined.Config{
		Collections:      bindings.Index,
		Policies:         bindings.PolicyUID,
		Resource:         bindings.Objects.Resource,
		Serves:           bindings.Serves,
		Reports:          read,
		Collectors:       collectors,
		CombinedStatuses: stored,
		Client:           objects,
		Writer:           bindings.Writer,
		Clock:            clock.RealClock{},
	})
	return collectors, controller, err
}
