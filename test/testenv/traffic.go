package testenv

import (
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Held is longer than any write is held back: what has not been written by then is not written.
const Held = 1500 * time.Millisecond

// RoundTripper makes an http.RoundTripper of a function.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Traffic notes the requests that pass through configurations, but for leases, events and dry runs.
// The zero Traffic is ready for use. It is safe for concurrent use.
type Traffic struct {
	// Events notes events too.
	Events bool

	mu     sync.Mutex
	writes []Request
	reads  []string
}

// Request is a request that writes.
type Request struct{ Method, Path, Body string }

// String returns method and path.
func (r Request) String() string { return r.Method + " " + r.Path }

// Count returns a copy of the configuration whose requests are noted.
func (c *Traffic) Count(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			c.note(r)
			return next.RoundTrip(r)
		})
	})
	return config
}

func (c *Traffic) note(r *http.Request) {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "reviews") { // of users and rights: nothing is stored
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reads = append(c.reads, r.URL.Path)
		return
	}
	if strings.Contains(r.URL.Path, "/leases") || !c.Events && strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.RawQuery, "dryRun") {
		return
	}
	request := Request{Method: r.Method, Path: r.URL.Path}
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			text, _ := io.ReadAll(body)
			request.Body = string(text)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, request)
}

// Written returns the writes so far whose paths contain the text.
func (c *Traffic) Written(about string) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.writes), func(r Request) bool { return !strings.Contains(r.Path, about) })
}

// Reads returns how often a path was read; "" is any.
func (c *Traffic) Reads(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, read := range c.reads {
		if path == "" || read == path {
			n++
		}
	}
	return n
}

// Reset forgets all requests so far.
func (c *Traffic) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes, c.reads = nil, nil
}

// Idle waits until nothing was written for so long that nothing can be on its way any more.
func (c *Traffic) Idle(t testing.TB) {
	t.Helper()
	Still(t, Held, func() int { return len(c.Written("")) })
}

// Nothing fails the test if anything is written whose path contains the text, after the first
// writes of that kind.
func (c *Traffic) Nothing(t testing.TB, about string, first int) {
	t.Helper()
	Never(t, Held, func() string {
		if written := c.Written(about)[first:]; len(written) > 0 {
			return fmt.Sprintf("wrote %v", written)
		}
		return ""
	})
}

// AfterWrite returns a copy of the configuration whose user learns of a write only when do has
// returned: the API server has carried it out. The write is described as for Proxy.CrashAfter. Do
// is called for each write that matches.
func AfterWrite(config *rest.Config, write string, do func()) *rest.Config {
	config = rest.CopyConfig(config)
	pattern := regexp.MustCompile("^(?:" + write + ")$")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode < http.StatusMultipleChoices && r.Method != http.MethodGet && pattern.MatchString(describe(r)) {
				do()
			}
			return response, err
		})
	})
	return config
}

// InNamespace returns a copy of the configuration whose user sees the resources of one namespace
// only: lists and watches of all namespaces become those of this one. So controllers of tests that
// run at the same time do not disturb each other.
func InNamespace(config *rest.Config, namespace string, resources ...string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(r *http.Request) (*http.Response, error) {
			groupVersion, resource := path.Split(r.URL.Path)
			if r.Method == http.MethodGet && slices.Contains(resources, resource) && !strings.Contains(groupVersion, "/namespaces/") {
				r = r.Clone(r.Context())
				r.URL.Path = groupVersion + "namespaces/" + namespace + "/" + resource
			}
			return next.RoundTrip(r)
		})
	})
	return config
}
