package testenv

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

func TestInNamespace(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RequestURI() }))
	t.Cleanup(server.Close)
	client, err := rest.HTTPClientFor(InNamespace(&rest.Config{Host: server.URL}, "a", "things", "secrets"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/apis/g/v1/things?watch=true":           "/apis/g/v1/namespaces/a/things?watch=true",
		"/api/v1/secrets":                        "/api/v1/namespaces/a/secrets",
		"/apis/g/v1/namespaces/b/things":         "/apis/g/v1/namespaces/b/things",
		"/apis/g/v1/namespaces/b/things/secrets": "/apis/g/v1/namespaces/b/things/secrets",
		"/apis/g/v1/others":                      "/apis/g/v1/others",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got != want {
			t.Errorf("%s: requested %s, want %s", path, got, want)
		}
	}
}
