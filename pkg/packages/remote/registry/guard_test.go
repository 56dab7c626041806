package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	packageremote "github.com/starlinghq/starling/pkg/packages/remote"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestPlainHTTPIsForLoopbackAddresses(t *testing.T) {
	next := roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{Body: http.NoBody}, nil })
	for url, want := range map[string]error{
		"https://registry.example/v2/": nil, "http://127.0.0.1:5000/v2/": nil, "http://localhost/v2/": nil, "http://[::1]:5000/v2/": nil,
		"http://registry.example/v2/": ErrPlainHTTP, "http://10.0.0.1/v2/": ErrPlainHTTP, "http://localhost.example/v2/": ErrPlainHTTP,
	} {
		request := httptest.NewRequest(http.MethodGet, url, http.NoBody)
		response, err := (&Guard{Next: next, Host: request.URL.Hostname()}).RoundTrip(request)
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
		response, err := (&Guard{Next: next, Host: "registry.example", Check: func(host string) error { return tc.hosts.Check("x", host) }}).RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != tc.want || (sent > 0) != tc.want {
			t.Errorf("%s: sent %d, error %v", name, sent, err)
		}
	}
}

// TestNothingOnThisMachineIsReached: a registry elsewhere cannot make the controller send requests
// to servers that listen on loopback addresses, neither by a redirect nor as its token server.
func TestNothingOnThisMachineIsReached(t *testing.T) {
	next := roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{Body: http.NoBody}, nil })
	for _, url := range []string{"http://127.0.0.1:8080/", "https://localhost/token", "https://[::1]/"} {
		for host, want := range map[string]error{"registry.example": errLoopback, "127.0.0.1": nil} {
			response, err := (&Guard{Next: next, Host: host}).RoundTrip(httptest.NewRequest(http.MethodGet, url, http.NoBody))
			if !errors.Is(err, want) {
				t.Errorf("%s, from %s: %v, want %v", url, host, err, want)
			}
			if err == nil {
				response.Body.Close()
			}
		}
	}
}

// TestBounds: blobs have their own limit, also if the registry redirects to them.
func TestBounds(t *testing.T) {
	next := roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: io.NopCloser(strings.NewReader("0123456789"))}, nil
	})
	guard := &Guard{Next: next, Host: "registry.example", Bytes: 10, Documents: 5}
	redirected := httptest.NewRequest(http.MethodGet, "https://storage.example/x", http.NoBody)
	redirected.Response = &http.Response{Request: httptest.NewRequest(http.MethodGet, "https://registry.example/v2/a/blobs/x", http.NoBody)}
	for name, tc := range map[string]struct {
		request *http.Request
		want    int
	}{
		"Manifest":       {httptest.NewRequest(http.MethodGet, "https://registry.example/v2/a/manifests/x", http.NoBody), 5},
		"Blob":           {httptest.NewRequest(http.MethodGet, "https://registry.example/v2/a/blobs/x", http.NoBody), 10},
		"RedirectedBlob": {redirected, 10},
	} {
		response, err := guard.RoundTrip(tc.request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if len(got) != tc.want || packageremote.KindOf(err) != packageremote.TooLarge {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestCredentials(t *testing.T) {
	config := func(servers ...string) []byte {
		text := ""
		for _, server := range servers {
			text += fmt.Sprintf(`,%q:{"username":%q,"password":"hunter2"}`, server, server)
		}
		return []byte(`{"auths":{` + strings.TrimPrefix(text, ",") + `}}`)
	}
	for name, tc := range map[string]struct {
		config     []byte
		repository string
		want       string // "" if there are none
	}{
		"Host":            {config("ghcr.io"), "ghcr.io/org/pkg", "ghcr.io"},
		"HostOnly":        {config("ghcr.io"), "ghcr.io", "ghcr.io"},
		"OtherHost":       {config("ghcr.io"), "quay.io/org/pkg", ""},
		"Port":            {config("127.0.0.1:5000"), "127.0.0.1:5000/org/pkg", "127.0.0.1:5000"},
		"OtherPort":       {config("127.0.0.1:5000"), "127.0.0.1:5001/org/pkg", ""},
		"URL":             {config("https://ghcr.io/v2/"), "ghcr.io/org/pkg", "https://ghcr.io/v2/"},
		"LongestPath":     {config("ghcr.io", "ghcr.io/org", "ghcr.io/org/pkg/x"), "ghcr.io/org/pkg", "ghcr.io/org"},
		"WholeSegments":   {config("ghcr.io/or"), "ghcr.io/org/pkg", ""},
		"Domain":          {config("*.example.com"), "a.example.com/pkg", "*.example.com"},
		"DomainOneLevel":  {config("*.example.com"), "a.b.example.com/pkg", ""},
		"DomainOfAnother": {config("*.example.com"), "a.example.com.evil/pkg", ""},
		"DockerHub":       {config("https://index.docker.io/v1/"), "docker.io/org/pkg", "https://index.docker.io/v1/"},
		"DockerHubIndex":  {config("https://index.docker.io/v1/"), "index.docker.io", "https://index.docker.io/v1/"},
		"DockerHubServer": {config("https://index.docker.io/v1/"), "registry-1.docker.io", "https://index.docker.io/v1/"},
		"NotDockerHub":    {config("https://index.docker.io/v1/"), "docker.io.evil.example", ""},
		"Empty":           {[]byte("{}"), "ghcr.io/org/pkg", ""},
	} {
		t.Run(name, func(t *testing.T) {
			auth, found, err := Credentials(tc.config, tc.repository)
			if err != nil || auth.Username != tc.want || found != (tc.want != "") {
				t.Errorf("got %q, %t, %v, want %q", auth.Username, found, err, tc.want)
			}
		})
	}
	if _, _, err := Credentials([]byte("hunter2"), "ghcr.io"); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}
