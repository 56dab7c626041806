package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
)

// doubtPeriod is how often the agent checks for a kind that the WEC does not serve, or seems not
// to.
const doubtPeriod = 5 * time.Second

// kinds has the resources that the WEC no longer serves. A 404 for a list or watch only raises a
// doubt: an API server that is starting, or that serves the kind in another version, also responds
// with 404. It is safe for concurrent use.
type kinds struct {
	mu sync.Mutex
	// gone has the resources that seem not to be served, and whether that is known.
	gone map[schema.GroupResource]bool
	// doubt receives a value when a resource became doubted.
	doubt chan struct{}
}

func newKinds() *kinds {
	return &kinds{gone: map[schema.GroupResource]bool{}, doubt: make(chan struct{}, 1)}
}

// failed records that a watch failed.
func (k *kinds) failed(resource dynamicinformer.Resource, err error) {
	if !apierrors.IsNotFound(err) {
		return
	}
	k.mu.Lock()
	if gr := resource.GroupResource(); !k.gone[gr] {
		k.gone[gr] = false
	}
	k.mu.Unlock()
	select {
	case k.doubt <- struct{}{}:
	default:
	}
}

// isGone reports whether the WEC is known not to serve the resource.
func (k *kinds) isGone(gr schema.GroupResource) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gone[gr]
}

// withoutGone removes the resources that are gone from the map, and returns it.
func (k *kinds) withoutGone(resources map[schema.GroupResource]dynamicinformer.Resource) map[schema.GroupResource]dynamicinformer.Resource {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(resources, func(gr schema.GroupResource, _ dynamicinformer.Resource) bool { return k.gone[gr] })
	return resources
}

// open returns the resources to check.
func (k *kinds) open() []schema.GroupResource {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.gone))
}

// set records whether a resource is gone, and reports whether that changed.
func (k *kinds) set(gr schema.GroupResource, gone bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.gone[gr]
	delete(k.gone, gr)
	if gone {
		k.gone[gr] = true
	}
	return was != gone
}

// followKinds checks the kinds that the WEC seems not to serve. A kind that is gone is not watched,
// and its objects count as deleted, until the WEC serves it again.
func (a *Agent) followKinds(ctx context.Context) {
	for {
		var again <-chan time.Time
		if len(a.kinds.open()) > 0 {
			again = a.config.Clock.After(doubtPeriod)
		}
		select {
		case <-ctx.Done():
			return
		case <-a.kinds.doubt:
		case <-again:
		}
		held := a.index.wanted(a.reportedResources())
		for _, gr := range a.kinds.open() {
			logger := klog.FromContext(ctx).WithValues(logging.Resource, gr.String())
			gone := false
			if _, matters := held[gr]; matters {
				var err error
				if gone, err = a.wecKinds.gone(ctx, gr); err != nil {
					logger.V(3).Info("Cannot check whether the cluster serves a kind; will retry, and keep its WorkStatuses", logging.Reason, err.Error())
					continue
				}
			}
			if a.kinds.set(gr, gone) {
				logger.V(2).Info("The cluster stopped or started serving a kind", "served", !gone)
				a.refreshWanted()
				a.enqueueAll(gr)
			}
		}
	}
}

var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// served reads from an API server which kinds it serves.
type served struct {
	objects dynamic.Interface
	apis    rest.Interface
}

func newServed(config *rest.Config, objects dynamic.Interface) (*served, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &served{objects: objects, apis: client.RESTClient()}, nil
}

// gone reports whether a resource has no objects because it does not exist. Three sources must
// agree, each of which alone may be behind or missing: no CustomResourceDefinition has that name,
// no version of the group lists the resource, and no other API server serves the group.
func (s *served) gone(ctx context.Context, gr schema.GroupResource) (bool, error) {
	if gr.Group == "" {
		return false, nil // the core group is always served
	}
	_, err := s.objects.Resource(crds).Get(ctx, gr.String(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false, err // it exists, or the API server does not serve CustomResourceDefinitions
	}
	listed, err := s.lists(ctx, gr)
	if err != nil || listed {
		return false, err
	}
	services, err := s.objects.Resource(apiServices).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("read APIServices: %w", err)
	}
	for i := range services.Items {
		group, _, _ := unstructured.NestedString(services.Items[i].Object, "spec", "group")
		_, elsewhere, _ := unstructured.NestedMap(services.Items[i].Object, "spec", "service")
		if group == gr.Group && elsewhere {
			return false, nil
		}
	}
	return true, nil
}

// lists reports whether a version of the group lists the resource.
func (s *served) lists(ctx context.Context, gr schema.GroupResource) (bool, error) {
	group := &metav1.APIGroup{}
	err := s.apis.Get().AbsPath("/apis", gr.Group).Do(ctx).Into(group)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("discover group %s: %w", gr.Group, err)
	}
	for _, version := range group.Versions {
		list := &metav1.APIResourceList{}
		if err := s.apis.Get().AbsPath("/apis", gr.Group, version.Version).Do(ctx).Into(list); err != nil {
			return false, fmt.Errorf("discover %s: %w", version.GroupVersion, err)
		}
		if slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == gr.Resource }) {
			return true, nil
		}
	}
	return false, nil
}
