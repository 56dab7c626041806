package live_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/transactions/live"
)

const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"buckets.example.org","resourceVersion":"7"},` +
	`"spec":{"group":"example.org","versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","maxProperties":3}}}]}}`

// TestReadOnce: each object is read once, also one that does not exist, and a failure is not
// remembered. Each caller gets an object of its own.
func TestReadOnce(t *testing.T) {
	var requests atomic.Int32
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case broken.Load():
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/buckets.example.org":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(crd)) // the client reports it if it fails
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	reader, err := live.NewReader(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d := reader.Definitions()

	broken.Store(true)
	if _, err := d.Object(t.Context(), "buckets.example.org"); err == nil {
		t.Error("a request that was refused is no error")
	}
	broken.Store(false)
	requests.Store(0)
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			o, err := d.Object(t.Context(), "buckets.example.org")
			if err != nil || o.GetResourceVersion() != "7" {
				t.Errorf("object %v, error %v", o, err)
				return
			}
			o.SetResourceVersion("8")
			typed, err := d.Typed(t.Context(), "buckets.example.org")
			if err != nil || typed.ResourceVersion != "7" || *typed.Spec.Versions[0].Schema.OpenAPIV3Schema.MaxProperties != 3 {
				t.Errorf("typed %v, error %v", typed, err)
			}
			if none, err := d.Typed(t.Context(), "others.example.org"); none != nil || err != nil {
				t.Errorf("an object that does not exist: %v, error %v", none, err)
			}
		})
	}
	running.Wait()
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want one for each of two names", n)
	}
	if _, err := reader.Definitions().Object(t.Context(), "buckets.example.org"); err != nil || requests.Load() != 3 {
		t.Errorf("the next try has not read again (error %v)", err)
	}
}
