package clusters

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/logging"
)

// WaitForResources blocks until the space serves all these resources, or the context ends. While it waits it logs which are
// missing, when it begins and whenever that changes: a controller that is started before its CRDs are installed says so and
// goes on by itself.
func WaitForResources(ctx context.Context, space *Space, resources ...schema.GroupVersionResource) error {
	client, err := discovery.NewDiscoveryClientForConfig(space.Config)
	if err != nil {
		return fmt.Errorf("build discovery client for space %s: %w", space.Name, err)
	}
	logger := klog.FromContext(ctx)
	logged := ""
	err = retry(ctx, func(context.Context) (bool, error) {
		missing, err := Missing(client, resources...)
		if err != nil {
			missing = []string{err.Error()}
		}
		if len(missing) == 0 {
			return true, nil
		}
		if text := strings.Join(missing, ", "); text != logged {
			logged = text
			logger.Info("Waiting for the space to serve resources; are the CRDs installed?",
				logging.Space, space.Name, logging.Resource, text)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if logged != "" {
		logger.Info("All resources are served", logging.Space, space.Name)
	}
	return nil
}

// Missing returns which of the resources are not served, as "bindings.control.kubestellar.io/v1alpha1", sorted. An error says
// that it could not be found out.
func Missing(client discovery.DiscoveryInterface, resources ...schema.GroupVersionResource) ([]string, error) {
	served := map[schema.GroupVersion]map[string]bool{}
	var missing []string
	for _, resource := range resources {
		names, ok := served[resource.GroupVersion()]
		if !ok {
			list, err := client.ServerResourcesForGroupVersion(resource.GroupVersion().String())
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("ask for the resources of %s: %w", resource.GroupVersion(), err)
			}
			names = map[string]bool{}
			if err == nil {
				for i := range list.APIResources {
					names[list.APIResources[i].Name] = true
				}
			}
			served[resource.GroupVersion()] = names
		}
		if !names[resource.Resource] {
			missing = append(missing, resource.GroupResource().String()+"/"+resource.Version)
		}
	}
	slices.Sort(missing)
	return missing, nil
}
