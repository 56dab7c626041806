package oci

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestPlainHTTPIsForLoopbackAddresses(t *testing.T) {
	guard := guarded{roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{Body: http.NoBody}, nil
	}), 1}
	for url, want := range map[string]error{
		"https://registry.example/v2/": nil, "http://127.0.0.1:5000/v2/": nil, "http://localhost/v2/": nil, "http://[::1]:5000/v2/": nil,
		"http://registry.example/v2/": errPlain, "http://10.0.0.1/v2/": errPlain, "http://localhost.example/v2/": errPlain,
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
