package foresight

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/spaces"
)

// TestUnlistable: an API server has no cache of objects that it cannot convert, and asks to try
// again. That is not waited for: the reason is asked for instead.
func TestUnlistable(t *testing.T) {
	t.Parallel()
	var requests []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		reply := func(code int, text string) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"` + text + `","code":` + strconv.Itoa(code) + `}`)) // the client reports it if it fails
		}
		if strings.Contains(r.URL.RawQuery, "resourceVersion=0") {
			w.Header().Set("Retry-After", "30")
			reply(http.StatusTooManyRequests, "storage is (re)initializing")
			return
		}
		reply(http.StatusInternalServerError, "conversion webhook failed")
	}))
	t.Cleanup(server.Close)
	r := &WorldReader{WDS: spaces.Connection{Config: &rest.Config{Host: server.URL}}}
	list, err := r.listing()
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []match.Resource{
		{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}},
		{GroupVersionResource: schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}},
	} {
		requests = nil
		if _, err := list(t.Context(), resource); err == nil || !strings.Contains(err.Error(), "conversion webhook failed") {
			t.Errorf("%s: error %v", resource.Resource, err)
		}
		if diff := cmp.Diff([]string{"resourceVersion=0", ""}, requests); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", resource.Resource, diff)
		}
	}
}
