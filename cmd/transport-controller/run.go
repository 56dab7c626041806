package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/settings"
	coresettings "github.com/starlinghq/starling/pkg/core/settings"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport"
	"github.com/starlinghq/starling/pkg/transport/directory"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/writer"
)

// run runs the controller until the context ends.
func run(ctx context.Context, o *options) error {
	lease, err := o.wds.Load()
	if err != nil {
		return err
	}
	var ready atomic.Pointer[func() error]
	wait := func(what string) {
		notYet := func() error { return errors.New("waiting for " + what) }
		ready.Store(&notYet)
	}
	wait("the WDS to answer")
	return runner.Run(ctx, o.runner, runner.Program{
		Name:       "transport-controller",
		LeaseSpace: lease,
		Ready:      func() error { return (*ready.Load())() },
		Run: func(ctx context.Context, leading <-chan struct{}) error {
			wds, err := spaces.WaitConnected(ctx, o.wdsName, o.wds)
			if err != nil {
				return err
			}
			wait("the WDS to serve Bindings and CustomTransforms")
			if err := spaces.WaitForResources(ctx, wds, controlv1alpha1.Bindings, controlv1alpha1.CustomTransforms); err != nil {
				return err
			}
			write, err := writer.New(wds.Config, o.wdsName, ocm.FieldManager)
			if err != nil {
				return err
			}
			controller, err := newController(o, wds, write)
			if err != nil {
				return err
			}
			published, err := settings.New(settings.Config{
				WDS: wds.Config, Writer: write, Name: coresettings.OfTransport, Clock: clock.RealClock{},
				Data: func(context.Context) (map[string]string, error) { return o.settings.Data(), nil },
			})
			if err != nil {
				return err
			}
			isReady := controller.Ready
			ready.Store(&isReady)
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return controller.Run(ctx, leading) })
			group.Go(func() error { return runner.WhenLeading(published.Run)(ctx, leading) })
			return group.Wait()
		},
	})
}

func newController(o *options, wds *spaces.Space, write *writer.Writer) (*transport.Controller, error) {
	control, err := client.New(wds.Config)
	if err != nil {
		return nil, err
	}
	bindings, err := client.NewInformer(control.Bindings(), &controlv1alpha1.Binding{}, cache.Indexers{})
	if err != nil {
		return nil, err
	}
	customTransforms, err := client.NewInformer(control.CustomTransforms(), &controlv1alpha1.CustomTransform{}, cache.Indexers{})
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(wds.Config)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	objects, err := dynamic.NewForConfig(wds.Config)
	if err != nil {
		return nil, fmt.Errorf("build dynamic client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(wds.Config)
	if err != nil {
		return nil, fmt.Errorf("build discovery client: %w", err)
	}
	files, err := content.New(wds.Config, clock.RealClock{})
	if err != nil {
		return nil, err
	}
	itses := make([]plugin.ITS, 0, len(o.dirs)+len(o.its))
	for _, name := range slices.Sorted(maps.Keys(o.dirs)) { // first, because a directory takes precedence
		config := directory.Config{Directory: o.dirs[name], WDSName: o.wdsName, WDSUID: wds.UID}
		itses = append(itses, plugin.ITS{Name: name, Connect: func(context.Context) (plugin.Plugin, error) { return directory.New(config) }})
	}
	for _, its := range o.its {
		options, err := its.Options(o.itsLimits)
		if err != nil {
			return nil, err
		}
		itses = append(itses, plugin.ITS{Name: its.Name, Connect: connect(its.Name, options, o.wdsName, wds.UID)})
	}
	excluded, err := corestatus.ParseExcluded(o.exclude)
	if err != nil {
		return nil, err
	}
	return transport.New(transport.Config{
		WDS: placement.WDS{
			Bindings:         bindings,
			CustomTransforms: customTransforms,
			Metadata:         dynamicinformer.MetadataInformer(metadataClient),
			Versions:         metadataClient,
			Objects:          objects,
			Packages:         placement.PackagesOf(objects, files, client.NewKinds(discoveryClient, clock.RealClock{})),
			Writer:           write,
		},
		ITSes:       itses,
		Limits:      o.limits,
		Concurrency: o.concurrency,
		Excluded:    excluded,

		ManagementNamespaces: o.settings.ManagementNamespaces,
	})
}

// connect returns a function that waits for an ITS and for OCM in it.
func connect(name string, options spaces.Options, wdsName string, wdsUID types.UID) func(context.Context) (plugin.Plugin, error) {
	return func(ctx context.Context) (plugin.Plugin, error) {
		space, err := spaces.WaitConnected(ctx, name, options)
		if err != nil {
			return nil, err
		}
		if err := spaces.WaitForResources(ctx, space, ocm.ManifestWorks, clusters.ManagedClusters); err != nil {
			return nil, err
		}
		return ocm.New(ocm.Config{
			Space: name, Hub: space.Config, WDSName: wdsName, WDSUID: wdsUID, Restored: space.Restored, ReportLimits: mailboxes.DefaultLimits(),
		})
	}
}
