// Package testxpkg has a registry with packages of Crossplane's format, for tests and
// demonstrations.
package testxpkg

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log" //nolint:depguard // net/http and the registry take nothing else
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ociremote "github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/xpkg"
	plumbing "github.com/starlinghq/starling/pkg/xpkg"
)

// Registry is a registry on 127.0.0.1 that keeps everything in memory. It is safe for concurrent
// use.
type Registry struct {
	next   http.Handler
	server *httptest.Server
	direct *httptest.Server // the same content, without faults and counters
	pusher *plumbing.Fetcher

	mu     sync.Mutex
	faults faults
	counts map[string]int
}

type faults struct {
	delay  time.Duration
	status int
	path   string // that a request must contain for the status
	token  string // value of the header Authorization; "" allows anonymous access
	change func(*http.Request, http.Handler, http.ResponseWriter)
}

// NewRegistry starts a Registry. The caller must close it.
func NewRegistry() (*Registry, error) {
	quiet := log.New(io.Discard, "", 0)
	r := &Registry{next: registry.New(registry.Logger(quiet)), counts: map[string]int{}}
	pusher, err := plumbing.New(plumbing.Options{Limits: plumbing.DefaultLimits(), Clock: clock.RealClock{}})
	if err != nil {
		return nil, err
	}
	r.pusher = pusher
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.direct = httptest.NewUnstartedServer(r.next)
	for _, server := range []*httptest.Server{r.server, r.direct} {
		server.Config.ErrorLog = quiet // clients try HTTPS first
		server.Start()
	}
	return r, nil
}

// Close stops the registry.
func (r *Registry) Close() {
	r.pusher.Close()
	r.server.Close()
	r.direct.Close()
}

// Host returns the host and the port.
func (r *Registry) Host() string { return r.server.Listener.Addr().String() }

// Source returns the repository with a path in this registry.
func (r *Registry) Source(path string) string { return r.Host() + "/" + path }

func (r *Registry) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	f := r.faults
	r.counts[kind(q)]++
	r.mu.Unlock()
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-q.Context().Done():
			return
		}
	}
	switch {
	case f.token != "" && q.Header.Get("Authorization") != f.token:
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
	case f.status != 0 && strings.Contains(q.URL.Path, f.path):
		w.WriteHeader(f.status)
	case f.change != nil:
		f.change(q, r.next, w)
	default:
		r.next.ServeHTTP(w, q)
	}
}

// kind returns what a request is for: ping, tags, head, manifest, blob or push.
func kind(q *http.Request) string {
	switch path := q.URL.Path; {
	case path == "/v2/":
		return "ping"
	case q.Method != http.MethodGet && q.Method != http.MethodHead:
		return "push"
	case strings.HasSuffix(path, "/tags/list"):
		return "tags"
	case strings.Contains(path, "/manifests/") && q.Method == http.MethodHead:
		return "head"
	case strings.Contains(path, "/manifests/"):
		return "manifest"
	}
	return "blob"
}

// Requests returns the number of requests since the last call, by what they are for: ping, tags,
// head, manifest, blob or push.
func (r *Registry) Requests() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := r.counts
	r.counts = map[string]int{}
	return counts
}

// Delay makes every request take some time.
func (r *Registry) Delay(d time.Duration) { r.set(func(f *faults) { f.delay = d }) }

// Fail answers requests whose path contains a text with a status; 0 ends it.
func (r *Registry) Fail(status int, path string) {
	r.set(func(f *faults) { f.status, f.path = status, path })
}

// Change calls a function instead of answering; nil ends it. It may call the handler that answers.
func (r *Registry) Change(change func(*http.Request, http.Handler, http.ResponseWriter)) {
	r.set(func(f *faults) { f.change = change })
}

// RequirePassword requires a user and a password for everything; an empty user ends it.
func (r *Registry) RequirePassword(user, password string) {
	r.set(func(f *faults) {
		if f.token = ""; user != "" {
			f.token = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
		}
	})
}

func (r *Registry) set(change func(*faults)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.faults)
}

// PullSecret returns a value of the key .dockerconfigjson of a Secret for this registry.
func (r *Registry) PullSecret(user, password string) []byte {
	return fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, r.Host(), user, password)
}

// Push writes an image, or an index of images, to a path with a tag, which it moves if it exists.
// It returns the digest. Faults and counters do not apply.
func (r *Registry) Push(ctx context.Context, path, tag string, image ociremote.Taggable) (string, error) {
	source := r.direct.Listener.Addr().String() + "/" + path
	return r.pusher.Push(ctx, xpkg.Reference{Source: source, Tag: tag}, image, plumbing.Access{})
}

// PushPackage builds a package and pushes it.
func (r *Registry) PushPackage(ctx context.Context, path, tag string, pkg *xpkg.Package) (string, error) {
	image, err := Image(pkg)
	if err != nil {
		return "", err
	}
	return r.Push(ctx, path, tag, image)
}

// Image returns the image of a package.
func Image(pkg *xpkg.Package) (v1.Image, error) {
	content, err := plumbing.Format(pkg)
	if err != nil {
		return nil, err
	}
	return plumbing.Build(content)
}
