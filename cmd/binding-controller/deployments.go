package main

import (
	"context"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/clusterrepositories"
	"github.com/starlinghq/starling/pkg/controller/deployments"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/pkg/write"
)

// deploymentControllers makes what carries packages to clusters. Without an inventory it is not known which there are: then there is none.
func deploymentControllers(
	o *options, wds *clusters.Space, watch *packagewatch.Informers, bindings *packagewatch.Bindings, found *inventory.Reader, reached func(point string),
) ([]packageController, error) {
	if found == nil {
		return nil, nil
	}
	writer, err := write.New(wds.Config, wds.Name, "starling-packages")
	if err != nil {
		return nil, err
	}
	reader, err := packagewatch.NewReader(wds.Config)
	if err != nil {
		return nil, err
	}
	recorder, record, err := client.NewRecorder(wds.Config, "starling-binding-controller", controlv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	clusterRepositories, err := clusterrepositories.New(clusterrepositories.Config{
		Watch: watch, Inventory: found, Namespaces: o.repositoryNamespaces, Writer: writer, Reader: reader, Clock: clock.RealClock{}, Reached: reached,
	})
	if err != nil {
		return nil, err
	}
	deployed, err := deployments.New(deployments.Config{
		Watch: watch, Bindings: bindings, Inventory: found, Namespaces: o.repositoryNamespaces, Writer: writer, Reader: reader, Events: recorder,
		Clock: clock.RealClock{}, Reached: reached,
	})
	if err != nil {
		return nil, err
	}
	return []packageController{clusterRepositories, &recording{deployed, record}}, nil
}

// recording is a controller with what writes its events.
type recording struct {
	packageController
	record func(context.Context) error
}

func (r *recording) Run(ctx context.Context, workers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.record(ctx) })
	group.Go(func() error { return r.packageController.Run(ctx, workers) })
	return group.Wait()
}
