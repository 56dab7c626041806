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

	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
)

// doubtPeriod is how often a WEC is asked about a kind that it does not serve, or seems not to.
const doubtPeriod = 5 * time.Second

// kinds knows which resources the WEC does not serve any more. A list or watch that is answered by 404 only raises a doubt: an API
// server that is starting, or one that serves a kind in another version, answers so too. It is safe for concurrent use.
type kinds struct {
	mu sync.Mutex
	// doubted are resources that seem not to be served, gone those that are known not to be.
	doubted map[schema.GroupResource]struct{}
	gone    map[schema.GroupResource]struct{}
	// doubt receives a value when something came to be doubted.
	doubt chan struct{}
}

func newKinds() *kinds {
	return &kinds{
		doubted: map[schema.GroupResource]struct{}{}, gone: map[schema.GroupResource]struct{}{},
		doubt: make(chan struct{}, 1),
	}
}

// failed notes that a watch failed.
func (k *kinds) failed(resource dynwatch.Resource, err error) {
	if !apierrors.IsNotFound(err) {
		return
	}
	k.mu.Lock()
	k.doubted[resource.GroupResource()] = struct{}{}
	k.mu.Unlock()
	select {
	case k.doubt <- struct{}{}:
	default:
	}
}

// isGone tells whether the WEC is known not to serve the resource.
func (k *kinds) isGone(gr schema.GroupResource) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.gone[gr]
	return ok
}

// withoutGone removes from the map what is gone, and returns it.
func (k *kinds) withoutGone(resources map[schema.GroupResource]dynwatch.Resource) map[schema.GroupResource]dynwatch.Resource {
	k.mu.Lock()
	defer k.mu.Unlock()
	for gr := range k.gone {
		delete(resources, gr)
	}
	return resources
}

// open returns what is to be asked about.
func (k *kinds) open() []schema.GroupResource {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := maps.Clone(k.doubted)
	maps.Copy(all, k.gone)
	return slices.Collect(maps.Keys(all))
}

// settle notes the answer, and tells whether it is another one than before.
func (k *kinds) settle(gr schema.GroupResource, gone bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, was := k.gone[gr]
	delete(k.doubted, gr)
	delete(k.gone, gr)
	if gone {
		k.gone[gr] = struct{}{}
	}
	return was != gone
}

// followKinds asks the WEC about kinds that it seems not to serve. What is gone is not watched, and its objects are not there; it
// is watched again when it is back.
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
					logger.V(3).Info("Cannot tell whether the cluster serves a kind; what was reported stays", "err", err)
					continue
				}
			}
			if a.kinds.settle(gr, gone) {
				logger.V(2).Info("A kind went or came back", "gone", gone)
				a.lookAtWanted()
				a.enqueueAll(gr)
			}
		}
	}
}

var (
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// served asks an API server which kinds it serves.
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

// gone tells whether there are no objects of the resource because there is no such resource. Three have to agree, each of which
// alone may be behind or not there: no CustomResourceDefinition of that name, no version of the group that lists the resource, and
// no other API server that serves the group.
func (s *served) gone(ctx context.Context, gr schema.GroupResource) (bool, error) {
	if gr.Group == "" {
		return false, nil // the core group does not go
	}
	_, err := s.objects.Resource(crds).Get(ctx, gr.String(), metav1.GetOptions{})
	if !apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false, err // it is there, or the API server does not know the kind CustomResourceDefinition
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

// lists tells whether a version of the group lists the resource.
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
