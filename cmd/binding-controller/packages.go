package main

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/repositories"
)

// startPackages starts what looks after Repositories, as soon as the WDS serves them, and returns what tells whether it is ready.
func startPackages(ctx context.Context, group *errgroup.Group, o *options, wds *clusters.Space) (ready func() error) {
	var running atomic.Pointer[repositories.Controller]
	group.Go(func() error {
		if err := clusters.WaitForResources(ctx, wds, repositories.Required...); err != nil {
			return err
		}
		controller, err := repositories.Setup(repositories.SetupConfig{WDS: wds.Config, WDSName: wds.Name, FileRoots: o.fileRoots})
		if err != nil {
			return err
		}
		running.Store(controller)
		return controller.Run(ctx, o.concurrency)
	})
	return func() error {
		if controller := running.Load(); controller != nil {
			return controller.Ready()
		}
		return errors.New("waiting for the WDS to serve Repositories")
	}
}
