package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/content"
	"github.com/starlinghq/starling/pkg/fnworker"
	"github.com/starlinghq/starling/pkg/packages"
	"github.com/starlinghq/starling/pkg/packageserver"
	"github.com/starlinghq/starling/pkg/runner"
)

func run(ctx context.Context, o *options) error {
	var ready atomic.Pointer[error]
	wait := func(what string) {
		err := errors.New("waiting for the WDS " + what)
		ready.Store(&err)
	}
	wait("to answer")
	// All replicas serve; only housekeeping is led.
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
		Run: func(ctx context.Context) error {
			wds, err := clusters.WaitConnected(ctx, o.wdsName, o.wds)
			if err != nil {
				return err
			}
			wait("to serve what packages are kept in")
			err = clusters.WaitForResources(ctx, wds, storev1alpha1.PackageRevisions, storev1alpha1.PackageNumbers, storev1alpha1.ContentChunks)
			if err != nil {
				return err
			}
			wait("to say who may ask")
			return serve(ctx, o, wds, func() { ready.Store(nil) })
		},
	})
}

func serve(ctx context.Context, o *options, wds *clusters.Space, ready func()) error {
	// The API server is near, as a rule on the same machine: to pack and unpack costs more than it saves.
	wds.Config.DisableCompression = true
	// Most of what a request makes is garbage when it ends, and most of what stays is bounded.
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryTarget)
	chunks, err := content.New(wds.Config, clock.RealClock{})
	if err != nil {
		return err
	}
	workers, err := fnworker.NewPool(o.workers)
	if err != nil {
		return fmt.Errorf("start function workers: %w", err)
	}
	defer workers.Close()
	store, err := packages.New(packages.Config{
		Space: wds.Config, Content: content.NewCache(chunks, contentCache), Render: workers.Render,
		EnforceGates: o.gates, Clock: clock.RealClock{}, Reached: runner.Killer(os.Getenv(runner.KillVariable)),
		Room: o.maxWork, Patience: o.requestTimeout / 4,
	})
	if err != nil {
		return err
	}
	server, err := packageserver.New(packageserver.Config{
		Done: ctx.Done(), Ready: ready, Store: store, Kubeconfig: o.wds.Kubeconfig, Serving: o.serving, RequestTimeout: o.requestTimeout,
		MaxRequest: o.maxRequest, MaxList: o.maxList, InFlight: o.inFlight, MutatingInFlight: o.mutating,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.PrepareRun().RunWithContext(ctx) })
	group.Go(func() error {
		store.Watch(ctx)
		return nil
	})
	keep := packageserver.Housekeeper{Store: store, Collect: chunks.Collect, Every: o.collectEvery}
	group.Go(func() error {
		if !o.runner.LeaderElect {
			return keep.Run(ctx)
		}
		return runner.Lead(ctx, runner.Program{Name: "package-server", LeaseSpace: wds.Config, Run: keep.Run})
	})
	return group.Wait()
}

// contentCache is how many bytes of files are kept in memory: packages are cloned more than once, and read after they were written.
const contentCache = 32 << 20

const (
	// gcPercent is how much garbage is let be, in percent of what is held: it is little.
	gcPercent = 200
	// memoryTarget is from where on garbage is collected as often as it takes to stay below it.
	memoryTarget = 256 << 20
)
