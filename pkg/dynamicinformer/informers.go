package dynamicinformer

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/starlinghq/starling/pkg/client"
)

// MetadataInformer builds informers that hold only metadata (*metav1.PartialObjectMetadata),
// without managedFields: enough for labels, names, owners and versions, with a fraction of the
// memory of objects.
func MetadataInformer(metadataClient metadata.Interface) func(Resource) cache.SharedIndexInformer {
	return func(resource Resource) cache.SharedIndexInformer {
		objects := metadataClient.Resource(resource.GroupVersionResource)
		list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		}
		return informer(metadataClient, &metav1.PartialObjectMetadata{}, list, objects.Watch, client.StripManagedFields)
	}
}

// DynamicInformer builds informers that hold what the transform keeps of each object
// (*unstructured.Unstructured). The transform must keep name, namespace, UID and resourceVersion.
func DynamicInformer(dynamicClient dynamic.Interface, transform cache.TransformFunc) func(Resource) cache.SharedIndexInformer {
	return func(resource Resource) cache.SharedIndexInformer {
		objects := dynamicClient.Resource(resource.GroupVersionResource)
		list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		}
		return informer(dynamicClient, &unstructured.Unstructured{}, list, objects.Watch, transform)
	}
}

func informer(
	clientset any, example runtime.Object, list cache.ListWithContextFunc, begin cache.WatchFuncWithContext, transform cache.TransformFunc,
) cache.SharedIndexInformer {
	reader := &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: whyNot(list, begin)}
	return transformed(cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(reader, clientset), example, 0, cache.Indexers{}), transform)
}

// whyNot is a watch that fails with the error of a list if the API server asks to try again later
// and a list fails as well.
//
// An API server that cannot read the objects of a resource, because it cannot convert them, does
// not begin to cache them. As long as it has no cache, it responds to a watch as if it had too many
// requests, and an informer repeats such a watch forever, without a list and without an error.
func whyNot(list cache.ListWithContextFunc, begin cache.WatchFuncWithContext) cache.WatchFuncWithContext {
	return func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		events, err := begin(ctx, options)
		if !apierrors.IsTooManyRequests(err) {
			return events, err
		}
		if _, why := list(ctx, metav1.ListOptions{Limit: pageSize}); why != nil && Refused(why) {
			err = why
		}
		return nil, err
	}
}

// WithoutRetries returns a copy of the configuration with which a watch, or a list from the cache
// of the API server, is not repeated by client-go as often and as late as the API server asks for:
// informers repeat it themselves, and find out why it fails.
func WithoutRetries(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withoutRetries{next} })
	return config
}

type withoutRetries struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w withoutRetries) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(r)
	if query := r.URL.Query(); err == nil && response.StatusCode == http.StatusTooManyRequests && (query.Has("watch") || query.Get("resourceVersion") == "0") {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// WrappedRoundTripper implements k8s.io/apimachinery/pkg/util/net.RoundTripperWrapper.
func (w withoutRetries) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }

// pageSize is how many objects are read to find out why they cannot be watched.
const pageSize = 500

func transformed(informer cache.SharedIndexInformer, transform cache.TransformFunc) cache.SharedIndexInformer {
	// Only an informer that runs refuses it; this one is new.
	if err := informer.SetTransform(transform); err != nil {
		panic(err)
	}
	return informer
}
