package main

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/bindings"
	"github.com/starlinghq/starling/pkg/controller/packages/clusterrepositories"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/writer"
)

// deliveryControllers builds the controllers that deliver packages to clusters: none without an
// ITS.
func deliveryControllers(
	o *options, wds *spaces.Space, watch *informers.Informers, packageBindings *informers.Bindings, found *clusters.Reader, recorder events.EventRecorder,
) ([]packageController, error) {
	if found == nil {
		return nil, nil
	}
	writer, err := writer.New(wds.Config, wds.Name, "starling-packages")
	if err != nil {
		return nil, err
	}
	reader, err := informers.NewReader(wds.Config)
	if err != nil {
		return nil, err
	}
	clusterRepositories, err := clusterrepositories.New(clusterrepositories.Config{
		Watch: watch, Inventory: found, Namespaces: o.repositoryNamespaces, Writer: writer, Empty: reader.Empty, Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	packageBindingsController, err := bindings.New(bindings.Config{
		Watch: watch, Bindings: packageBindings, Inventory: found, Namespaces: o.repositoryNamespaces, Writer: writer, Reader: reader, Events: recorder,
		Clock: clock.RealClock{},
	})
	if err != nil {
		return nil, err
	}
	return []packageController{clusterRepositories, packageBindingsController}, nil
}
