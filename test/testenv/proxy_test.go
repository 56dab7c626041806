package testenv

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

func TestDescribe(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces":                      "PUT namespaces",
		"/api/v1/namespaces/a":                    "PUT namespaces",
		"/api/v1/namespaces/a/status":             "PUT namespaces/status",
		"/api/v1/namespaces/a/configmaps":         "PUT configmaps",
		"/api/v1/namespaces/a/configmaps/b":       "PUT configmaps",
		"/apis/g/v1/things/a/status":              "PUT things/status",
		"/apis/g/v1/namespaces/a/things/b/status": "PUT things/status",
		"/version": "PUT version",
	} {
		if got := describe(httptest.NewRequest(http.MethodPut, path, http.NoBody)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestCrashAfter: the write that the program crashes at is carried out, and not answered; others
// are.
func TestCrashAfter(t *testing.T) {
	var carriedOut atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			carriedOut.Add(1)
		}
	}))
	t.Cleanup(server.Close)
	proxy := NewProxy(t, &rest.Config{Host: server.URL})
	var crashed atomic.Int32
	proxy.CrashAfter("(POST|PUT) things", 2, func() { crashed.Add(1) })
	do := func(method, path string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, proxy.Config().Host+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Close = true // or the transport tries an idempotent request again
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	for _, r := range [][2]string{
		{http.MethodPost, "/apis/g/v1/namespaces/a/things"},
		{http.MethodGet, "/apis/g/v1/namespaces/a/things"},
		{http.MethodPut, "/apis/g/v1/namespaces/a/things/b/status"},
		{http.MethodDelete, "/apis/g/v1/namespaces/a/things/b"},
	} {
		if err := do(r[0], r[1]); err != nil || crashed.Load() != 0 {
			t.Fatalf("%s: %v; crashed %d times", r, err, crashed.Load())
		}
	}
	if err := do(http.MethodPost, "/apis/g/v1/namespaces/a/things"); err == nil || crashed.Load() != 1 || carriedOut.Load() != 4 {
		t.Fatalf("error %v; crashed %d times; %d writes", err, crashed.Load(), carriedOut.Load())
	}
	if err := do(http.MethodPut, "/apis/g/v1/namespaces/a/things/b"); err != nil || crashed.Load() != 1 {
		t.Fatalf("error %v; crashed %d times", err, crashed.Load())
	}
	proxy.CrashBefore("POST things", 2, func() { crashed.Add(1) })
	if err := do(http.MethodPost, "/apis/g/v1/namespaces/a/things"); err != nil || crashed.Load() != 1 || carriedOut.Load() != 6 {
		t.Fatalf("error %v; crashed %d times; %d writes", err, crashed.Load(), carriedOut.Load())
	}
	if err := do(http.MethodPost, "/apis/g/v1/namespaces/a/things"); err == nil || crashed.Load() != 2 || carriedOut.Load() != 6 {
		t.Fatalf("error %v; crashed %d times; %d writes", err, crashed.Load(), carriedOut.Load())
	}
}
