package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/gates"
	transactionscontroller "github.com/starlinghq/starling/pkg/controller/transactions"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/destinations"
	"github.com/starlinghq/starling/pkg/xpkg"
)

// startTransactions starts the controller of transactions as soon as the WDS serves them. It
// returns its readiness check.
func startTransactions(ctx context.Context, group *errgroup.Group, o *options, wds *spaces.Space, found *clusters.Reader) (ready func() error) {
	var running atomic.Pointer[transactionscontroller.Controller]
	var answering atomic.Pointer[gates.Controller]
	group.Go(func() error {
		if err := spaces.WaitForResources(ctx, wds, transactions.Required...); err != nil {
			return err
		}
		fetcher, remove, err := newFetcher(o)
		if err != nil {
			return err
		}
		defer remove()
		recorder, record, err := client.NewRecorder(wds.Config, "starling-binding-controller", pkgv1alpha1.AddToScheme)
		if err != nil {
			return err
		}
		itses, err := newDestinations(o)
		if err != nil {
			return err
		}
		controller, watch, err := transactionscontroller.Setup(transactionscontroller.SetupConfig{
			WDS: wds.Config, WDSName: wds.Name, Fetcher: fetcher, Namespace: runner.Namespace, HubVersion: o.crossplaneVersion,
			WDSUID: wds.UID, Clusters: found, ITSes: itses, PackageNamespaces: o.repositoryNamespaces, Events: recorder, Clock: clock.RealClock{},
		})
		if err != nil {
			return err
		}
		running.Store(controller)
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return controller.Run(ctx, o.concurrency) })
		group.Go(func() error { return record(ctx) })
		group.Go(func() error { return watch.Run(ctx) })
		group.Go(func() error { return runGates(ctx, o, wds, watch, &answering) })
		return group.Wait()
	})
	return func() error {
		controller := running.Load()
		if controller == nil {
			return errors.New("waiting for the WDS to serve transactions")
		}
		if gates := answering.Load(); gates != nil { // without packages there is nothing to wait for
			return errors.Join(controller.Ready(), gates.Ready())
		}
		return controller.Ready()
	}
}

// runGates runs the controller of the gates that transactions answer, as soon as the WDS serves
// packages.
func runGates(ctx context.Context, o *options, wds *spaces.Space, watch *transactions.Informers, running *atomic.Pointer[gates.Controller]) error {
	if err := spaces.WaitForResources(ctx, wds, gates.Required...); err != nil {
		return err
	}
	controller, err := gates.New(gates.Config{WDS: wds.Config, WDSName: wds.Name, Watch: watch, Clock: clock.RealClock{}})
	if err != nil {
		return err
	}
	running.Store(controller)
	return controller.Run(ctx, o.concurrency)
}

// newDestinations returns the ITSes, by name.
func newDestinations(o *options) (map[string]*destinations.ITS, error) {
	itses := map[string]*destinations.ITS{}
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		config, err := options.Load()
		if err != nil {
			return nil, err
		}
		if itses[its.Name], err = destinations.NewITS(its.Name, config, transaction.FieldManager); err != nil {
			return nil, err
		}
	}
	return itses, nil
}

// newFetcher returns what fetches packages, and the function that closes it. Without a directory
// for the cache it has one of its own, which nobody else can write, for as long as it runs.
func newFetcher(o *options) (fetcher *xpkg.Fetcher, remove func(), err error) {
	cache, private := o.packageCache, ""
	if cache == "" {
		if private, err = os.MkdirTemp("", "starling-packages-"); err != nil {
			return nil, nil, fmt.Errorf("create cache of packages: %w", err)
		}
		cache = private
	}
	fetcher, err = xpkg.New(xpkg.Options{
		Hosts: remote.Hosts(o.repositoryHosts), Directory: o.packageDirectory, Cache: cache, CacheBytes: o.packageCacheSize << 20,
		Limits: xpkg.DefaultLimits(), Clock: clock.RealClock{},
	})
	remove = func() {
		if fetcher != nil {
			fetcher.Close()
		}
		if private != "" {
			_ = os.RemoveAll(private)
		}
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return fetcher, remove, nil
}
