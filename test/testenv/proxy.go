package testenv

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy is a way to an API server on which a program can be ended between two of its writes: the
// server has carried out the first, and the program never learns of it. So crashes at every point
// can be tested without code for it in the program.
type Proxy struct {
	server *httptest.Server

	mu    sync.Mutex
	crash *crash
}

// crash is the write at which the program ends.
type crash struct {
	pattern *regexp.Regexp
	left    int
	before  bool // the API server never gets the write
	end     func()
}

// NewProxy returns a Proxy on loopback that carries all requests to the API server of config, with
// its rights. It ends with the test.
func NewProxy(t testing.TB, config *rest.Config) *Proxy {
	t.Helper()
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{}
	carry := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches
		ModifyResponse: p.answered,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.crashes(r, true) {
			panic(http.ErrAbortHandler)
		}
		carry.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Config returns a configuration that leads through the Proxy.
func (p *Proxy) Config() *rest.Config {
	return &rest.Config{Host: p.server.URL, QPS: 1000, Burst: 2000}
}

// Kubeconfig returns a new file that leads through the Proxy.
func (p *Proxy) Kubeconfig(t testing.TB) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: p.server.URL}
	config.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	config.CurrentContext = "proxy"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// CrashAfter calls end, once, when the API server has carried out the n-th write from now on that
// matches: "POST configmaps", say, or "(PUT|PATCH) configmaps/status". The program gets no answer
// to it. End must not return before the program has ended.
func (p *Proxy) CrashAfter(write string, n int, end func()) {
	p.set(&crash{pattern: regexp.MustCompile("^(?:" + write + ")$"), left: n, end: end})
}

// CrashBefore calls end, once, before the n-th write from now on that matches, as for CrashAfter.
// The API server never gets that write.
func (p *Proxy) CrashBefore(write string, n int, end func()) {
	p.set(&crash{pattern: regexp.MustCompile("^(?:" + write + ")$"), left: n, before: true, end: end})
}

func (p *Proxy) set(c *crash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crash = c
}

var errCrashed = errors.New("the program crashed")

func (p *Proxy) answered(response *http.Response) error {
	if response.StatusCode < http.StatusMultipleChoices && p.crashes(response.Request, false) {
		return errCrashed
	}
	return nil
}

// crashes reports whether the program ends at a request, and ends it.
func (p *Proxy) crashes(r *http.Request, before bool) bool {
	if r.Method == http.MethodGet || r.URL.Query().Has("dryRun") {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crash == nil || p.crash.before != before || !p.crash.pattern.MatchString(describe(r)) {
		return false
	}
	p.crash.left--
	if p.crash.left > 0 {
		return false
	}
	p.crash.end()
	p.crash = nil
	return true
}

// describe returns method, resource and subresource of a request.
func describe(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(map[string]int{"api": 2, "apis": 3}[parts[0]], len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		parts = parts[2:]
	}
	if len(parts) == 0 {
		return r.Method
	}
	text := r.Method + " " + parts[0]
	if len(parts) > 2 {
		text += "/" + parts[2]
	}
	return text
}
