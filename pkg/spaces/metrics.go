package spaces

import (
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"

	starlingmetrics "github.com/starlinghq/starling/pkg/metrics"
)

// callLatency has the name and labels that KubeStellar's dashboards use.
var callLatency = metrics.NewHistogramVec(&metrics.HistogramOpts{
	Namespace:      "kubestellar",
	Name:           "apiserver_call_latency_seconds",
	Help:           "Time until an API server answered, by space, resource, method and error; watches are left out.",
	Buckets:        []float64{0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30},
	StabilityLevel: metrics.ALPHA,
}, []string{"space", "resource", "method", "error"})

// measureCalls makes every request that is sent with config count as a request to the space.
func measureCalls(config *rest.Config, space string) {
	starlingmetrics.Register(callLatency)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			resource, method, ok := call(request)
			if !ok {
				return next.RoundTrip(request)
			}
			begin := time.Now()
			response, err := next.RoundTrip(request)
			callLatency.WithLabelValues(space, resource, method, failure(response, err)).Observe(time.Since(begin).Seconds())
			return response, err
		})
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// call returns the resource and the method of a request. It returns false for watches, and for
// requests for no resource, such as discovery.
func call(request *http.Request) (resource, method string, ok bool) {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	var groupVersion string
	switch {
	case len(path) > 2 && path[0] == "api":
		groupVersion, path = path[1], path[2:]
	case len(path) > 3 && path[0] == "apis":
		groupVersion, path = path[2]+"."+path[1], path[3:]
	default:
		return "", "", false
	}
	if path[0] == "namespaces" && len(path) > 2 && path[2] != "status" && path[2] != "finalize" {
		path = path[2:]
	}
	resource = path[0] + "." + groupVersion
	named := len(path) > 1
	switch request.Method {
	case http.MethodGet:
		switch {
		case request.URL.Query().Get("watch") != "":
			return "", "", false
		case named:
			return resource, "get", true
		}
		return resource, "list", true
	case http.MethodPost:
		return resource, "create", true
	case http.MethodPut:
		return resource, "update", true
	case http.MethodPatch:
		return resource, "patch", true
	case http.MethodDelete:
		if named {
			return resource, "delete", true
		}
		return resource, "deletecollection", true
	}
	return "", "", false
}

// failure returns the reason of a failed request in the form of an API server's reasons, or "" if
// it succeeded.
func failure(response *http.Response, err error) string {
	switch {
	case err != nil:
		return "NoAnswer"
	case response.StatusCode < http.StatusBadRequest:
		return ""
	}
	return strings.ReplaceAll(http.StatusText(response.StatusCode), " ", "")
}
