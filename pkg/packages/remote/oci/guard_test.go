package oci

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestPlainHTTPIsForLoopbackAddresses(t *testing.T) {
	guard := guardedTransport{roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: http.NoBody}, nil
	}), 1, nil}
	for url, want := range map[string]error{
		"https://registry.example/v2/": nil, "http://127.0.0.1:5000/v2/": nil, "http://localhost/v2/": nil, "http://[::1]:5000/v2/": nil,
		"http://registry.example/v2/": errPlainHTTP, "http://10.0.0.1/v2/": errPlainHTTP, "http://localhost.example/v2/": errPlainHTTP,
	} {
		response, err := guard.RoundTrip(httptest.NewRequest(http.MethodGet, url, http.NoBody))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
		if err == nil {
			response.Body.Close()
		}
	}
}

// TestCredentialsStayWithAllowedHosts: a redirect to another host carries no credentials, and a
// registry that names a token server that is not allowed gets none there.
func TestCredentialsStayWithAllowedHosts(t *testing.T) {
	sent := 0
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return &http.Response{Body: http.NoBody}, nil
	})
	from := httptest.NewRequest(http.MethodGet, "https://registry.example/v2/", http.NoBody)
	for name, tc := range map[string]struct {
		hosts       packageremote.Hosts
		method, url string
		header      bool
		redirected  bool
		want        bool
	}{
		"Registry":              {nil, http.MethodGet, "https://registry.example/v2/", true, false, true},
		"RedirectOnTheHost":     {nil, http.MethodGet, "https://registry.example/other", true, true, true},
		"RedirectElsewhere":     {nil, http.MethodGet, "https://evil.example/", true, true, false},
		"RedirectOfAForm":       {nil, http.MethodPost, "https://evil.example/", false, true, false},
		"DownloadElsewhere":     {packageremote.Hosts{"registry.example"}, http.MethodGet, "https://blobs.example/", false, true, true},
		"TokenServer":           {nil, http.MethodGet, "https://auth.example/token", true, false, true},
		"TokenServerNotAllowed": {packageremote.Hosts{"registry.example"}, http.MethodGet, "https://auth.example/token", true, false, false},
		"FormNotAllowed":        {packageremote.Hosts{"registry.example"}, http.MethodPost, "https://auth.example/token", false, false, false},
		"TokenServerAllowed":    {packageremote.Hosts{"registry.example", "auth.example"}, http.MethodPost, "https://auth.example/token", true, false, true},
	} {
		request := httptest.NewRequest(tc.method, tc.url, http.NoBody)
		if tc.header {
			request.Header.Set("Authorization", "Basic bWU6aHVudGVyMg==")
		}
		if tc.redirected {
			request.Response = &http.Response{Request: from}
		}
		sent = 0
		response, err := guardedTransport{next, 1, tc.hosts}.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != tc.want || (sent > 0) != tc.want {
			t.Errorf("%s: sent %d, error %v", name, sent, err)
		}
	}
}

// TestDockerHub: docker login stores the credentials of Docker Hub under a key that is no host.
func TestDockerHub(t *testing.T) {
	config := map[string][]byte{keyDockerConfig: []byte(`{"auths":{"https://index.docker.io/v1/":{"username":"me","password":"hunter2"}}}`)}
	for host, want := range map[string]bool{"docker.io": true, "index.docker.io": true, "registry-1.docker.io": true, "ghcr.io": false, "docker.io.evil.example": false} {
		if _, err := authenticator(config, host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
}
