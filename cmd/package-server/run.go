package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/apiserver"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/functionrunner"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
)

func run(ctx context.Context, o *options) error {
	var ready atomic.Pointer[error]
	wait := func(what string) {
		err := errors.New("waiting for the WDS " + what)
		ready.Store(&err)
	}
	wait("to answer")
	// All replicas serve. Only the Housekeeper needs leader election.
	serving := *o.runner
	serving.LeaderElect = false
	return runner.Run(ctx, &serving, runner.Program{
		Name: "package-server",
		Ready: func() error {
			if err := ready.Load(); err != nil {
				return *err
			}
			return nil
		},
		Run: func(ctx context.Context, _ <-chan struct{}) error {
			wds, err := spaces.WaitConnected(ctx, o.wdsName, o.wds)
			if err != nil {
				return err
			}
			wait("to serve the resources of store.starling.io")
			err = spaces.WaitForResources(ctx, wds, storev1alpha1.PackageRevisions, storev1alpha1.PackageNumbers, storev1alpha1.ContentChunks)
			if err != nil {
				return err
			}
			wait("to provide the CA of the aggregator")
			return serve(ctx, o, wds, func() { ready.Store(nil) })
		},
	})
}

func serve(ctx context.Context, o *options, wds *spaces.Space, ready func()) error {
	// The API server is usually on the same machine: compression costs more than it saves.
	wds.Config.DisableCompression = true
	// Most of the memory of a request is garbage when it ends, and most of what remains is bounded.
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryTarget)
	chunks, err := content.New(wds.Config, clock.RealClock{})
	if err != nil {
		return err
	}
	workers, err := functionrunner.NewPool(o.workers)
	if err != nil {
		return fmt.Errorf("start function workers: %w", err)
	}
	defer workers.Close()
	store, err := store.New(store.Config{
		Space: wds.Config, Content: content.NewCache(chunks, contentCache), Render: workers.Render,
		EnforceGates: o.gates, TransactionGates: o.transactionGates, Clock: clock.RealClock{},
		MaxRenderBytes: o.maxWork, RenderQueueTimeout: o.requestTimeout / 4,
	})
	if err != nil {
		return err
	}
	server, err := apiserver.New(apiserver.Config{
		Done: ctx.Done(), Ready: ready, Store: store, Kubeconfig: o.wds.Kubeconfig, Serving: o.serving, RequestTimeout: o.requestTimeout,
		MaxRequest: o.maxRequest, MaxList: o.maxList, InFlight: o.inFlight, MutatingInFlight: o.mutating,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.PrepareRun().RunWithContext(ctx) })
	group.Go(func() error {
		store.WatchLayout(ctx)
		return nil
	})
	keep := apiserver.Housekeeper{Store: store, Collect: chunks.Collect, Interval: o.collectEvery}
	group.Go(func() error {
		if !o.runner.LeaderElect {
			return keep.Run(ctx)
		}
		return runner.Lead(ctx, runner.Program{Name: "package-server", LeaseSpace: wds.Config, Run: runner.WhenLeading(keep.Run)})
	})
	return group.Wait()
}

// contentCache is the size of the content cache in bytes: packages are cloned repeatedly, and read
// after they were written.
const contentCache = 32 << 20

const (
	// gcPercent allows much garbage relative to the live heap, because the live heap is small.
	gcPercent = 200
	// memoryTarget is the heap size from which the collector runs as often as needed to stay below
	// it.
	memoryTarget = 256 << 20
)
