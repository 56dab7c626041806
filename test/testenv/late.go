package testenv

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// LateWatches returns the config of a user whose watches of a resource show nothing new while late
// is locked. The resource is the end of a path, as "/configmaps".
func LateWatches(config *rest.Config, resource string, late *sync.RWMutex) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && strings.HasSuffix(r.URL.Path, resource) && r.URL.Query().Get("watch") != "" {
				response.Body = lateBody{response.Body, late}
			}
			return response, err
		})
	})
	return config
}

type lateBody struct {
	io.ReadCloser
	late *sync.RWMutex
}

func (b lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.late.RLock()
	defer b.late.RUnlock()
	return n, err
}
