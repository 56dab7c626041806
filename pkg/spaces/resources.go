package spaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/starlinghq/starling/pkg/logging"
)

// WaitForResources blocks until the space serves all these resources, or the context ends. A
// controller that starts before its CRDs are installed waits here: the missing resources are logged
// first, and again when they change.
func WaitForResources(ctx context.Context, space *Space, resources ...schema.GroupVersionResource) error {
	client, err := discovery.NewDiscoveryClientForConfig(space.Config)
	if err != nil {
		return fmt.Errorf("build discovery client for space %q: %w", space.Name, err)
	}
	const waiting = "Waiting for resources that the space does not serve; are their CRDs installed?"
	return retry(ctx, space.Name, waiting, logging.Resource, "The space serves all resources", func(context.Context) (string, error) {
		names, err := missing(client, resources)
		if err != nil {
			return err.Error(), nil //nolint:nilerr // the space may be starting
		}
		return strings.Join(names, ", "), nil
	})
}

// missing returns the resources that are not served, sorted, as
// "bindings.control.kubestellar.io/v1alpha1". It sends one request per resource.
func missing(client discovery.DiscoveryInterface, resources []schema.GroupVersionResource) ([]string, error) {
	var names []string
	for _, resource := range resources {
		served, err := discovery.IsResourceEnabled(client, resource)
		if err != nil {
			return nil, fmt.Errorf("list the resources of %s: %w", resource.GroupVersion(), err)
		}
		if !served {
			names = append(names, resource.GroupResource().String()+"/"+resource.Version)
		}
	}
	slices.Sort(names)
	return names, nil
}
