package main

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/clusternames"
	"github.com/starlinghq/starling/pkg/controller/combinedstatus"
	"github.com/starlinghq/starling/pkg/controller/packages/repositories"
	"github.com/starlinghq/starling/pkg/controller/settings"
	"github.com/starlinghq/starling/pkg/controller/status"
	"github.com/starlinghq/starling/pkg/controller/transactions"
	coresettings "github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/writer"
)

// run runs the chosen controllers until the context ends. Policies, packages and transactions are
// programs with Leases of their own, so that each of them runs although another process runs the
// others.
func run(ctx context.Context, o *options) error {
	lease, err := o.wds.Load()
	if err != nil {
		return err
	}
	found, err := newClusters(o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	if found != nil {
		group.Go(func() error { return found.Run(ctx) })
	}
	var programs []runner.Program
	if leases := o.leases(binding.Name, status.Name); len(leases) > 0 {
		programs = append(programs, newProgram(o, lease, leases, func(ctx context.Context, leading <-chan struct{}, group *errgroup.Group, wds *spaces.Space, ready *readiness) error {
			ready.wait("to serve BindingPolicies and Bindings")
			check, err := startControllers(ctx, leading, group, o, wds, found)
			if err != nil {
				return err
			}
			ready.set(check)
			return nil
		}))
	}
	if leases := o.leases(repositories.Name); len(leases) > 0 {
		programs = append(programs, newProgram(o, lease, leases, func(ctx context.Context, leading <-chan struct{}, group *errgroup.Group, wds *spaces.Space, ready *readiness) error {
			// They read little, so they begin when they lead.
			return runner.WhenLeading(func(ctx context.Context) error {
				ready.set(startPackages(ctx, group, o, wds, found))
				return nil
			})(ctx, leading)
		}))
	}
	if leases := o.leases(transactions.Name); len(leases) > 0 {
		programs = append(programs, newProgram(o, lease, leases, func(ctx context.Context, leading <-chan struct{}, group *errgroup.Group, wds *spaces.Space, ready *readiness) error {
			return runner.WhenLeading(func(ctx context.Context) error {
				ready.set(startTransactions(ctx, group, o, wds, found))
				return nil
			})(ctx, leading)
		}))
	}
	group.Go(func() error {
		defer cancel()
		return runner.Run(ctx, o.runner, programs[0], programs[1:]...)
	})
	return group.Wait()
}

// readiness is why a program is not ready yet.
type readiness struct{ check atomic.Pointer[func() error] }

func (r *readiness) set(check func() error) { r.check.Store(&check) }

func (r *readiness) wait(what string) {
	r.set(func() error { return errors.New("waiting for the WDS " + what) })
}

func (r *readiness) get() error { return (*r.check.Load())() }

// newProgram returns a program that connects to the WDS and starts controllers.
func newProgram(
	o *options, lease *rest.Config, leases []string,
	start func(ctx context.Context, leading <-chan struct{}, group *errgroup.Group, wds *spaces.Space, ready *readiness) error,
) runner.Program {
	ready := &readiness{}
	ready.wait("to answer")
	return runner.Program{
		Name:       "binding-controller",
		Leases:     leases,
		LeaseSpace: lease,
		Ready:      ready.get,
		Run: func(ctx context.Context, leading <-chan struct{}) error {
			wds, err := spaces.WaitConnected(ctx, o.wdsName, o.wds)
			if err != nil {
				return err
			}
			group, ctx := errgroup.WithContext(ctx)
			if err := start(ctx, leading, group, wds, ready); err != nil {
				group.Go(func() error { return err }) // ends the others
			}
			return group.Wait()
		},
	}
}

// newClusters returns the reader of the clusters of all ITSes, for all controllers; nil if there
// are none.
func newClusters(o *options) (*clusters.Reader, error) {
	if len(o.its) == 0 {
		return nil, nil //nolint:nilnil // packages may be kept without clusters
	}
	itses := make([]clusters.ITS, 0, len(o.its))
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		itses = append(itses, clusters.Connect(its.Name, options))
	}
	return clusters.New(itses...), nil
}

// newClusterNames returns the controller that marks clusters whose name stands for a cluster of
// another ITS.
func newClusterNames(o *options, found *clusters.Reader) (*clusternames.Controller, error) {
	writers := map[string]clusternames.Writer{}
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		config, err := options.Load()
		if err != nil {
			return nil, err
		}
		if writers[its.Name], err = writer.New(config, its.Name, "binding-controller"); err != nil {
			return nil, err
		}
	}
	return clusternames.New(clusternames.Config{Clusters: found, Writers: writers, Clock: clock.RealClock{}})
}

// startControllers starts the controllers of policies, which write when leading is closed. It
// returns the check for their readiness.
func startControllers(
	ctx context.Context, leading <-chan struct{}, group *errgroup.Group, o *options, wds *spaces.Space, found *clusters.Reader,
) (ready func() error, err error) {
	if err := spaces.WaitForResources(ctx, wds, binding.Required...); err != nil {
		return nil, err
	}
	config := binding.SetupConfig{WDS: wds.Config, WDSName: wds.Name, Clusters: found, Settings: o.settings}
	var collectors *combinedstatus.Collectors
	if o.runs(status.Name) {
		if collectors, err = newCollectors(wds); err != nil {
			return nil, err
		}
		config.Collectors = collectors
	}
	bindings, err := binding.Setup(config)
	if err != nil {
		return nil, err
	}
	ready = bindings.Ready
	var observers binding.Observers
	if o.runs(status.Name) {
		if observers, ready, err = startStatus(ctx, leading, group, o, wds, bindings, collectors, found); err != nil {
			return nil, err
		}
	}
	workers := 0 // the status controller alone needs the index, not the Bindings
	if o.runs(binding.Name) {
		workers = o.concurrency
		names, err := newClusterNames(o, found)
		if err != nil {
			return nil, err
		}
		group.Go(func() error { return runner.WhenLeading(names.Run)(ctx, leading) })
		self, err := client.NewSelf(wds.Config)
		if err != nil {
			return nil, err
		}
		published, err := settings.New(settings.Config{
			WDS: wds.Config, Writer: bindings.Writer, Name: coresettings.OfBindings, Clock: clock.RealClock{},
			Data: func(ctx context.Context) (map[string]string, error) {
				known := o.settings
				if o.runs(repositories.Name) {
					if known.PackagesUser, err = self.Name(ctx); err != nil {
						return nil, err
					}
				}
				return known.Data(), nil
			},
		})
		if err != nil {
			return nil, err
		}
		group.Go(func() error { return runner.WhenLeading(published.Run)(ctx, leading) })
	}
	group.Go(func() error { return bindings.Run(ctx, leading, workers, observers) })
	return ready, nil
}
