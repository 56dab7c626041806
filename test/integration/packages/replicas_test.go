package packages

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// forwarder is one address for several: it forwards connections to them in turn, except to those
// that do not listen.
type forwarder struct {
	address string
	mu      sync.Mutex
	to      []string
	turn    int
	// last is the target of the last connection.
	last string
}

func forward(t *testing.T, to ...string) *forwarder {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forwarder{address: listener.Addr().String(), to: to}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background()) //nolint:usetesting // that of the test ends after its cleanups
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f.serve(ctx, conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		cancel()
		running.Wait()
	})
	return f
}

// dial connects to the next target that listens.
func (f *forwarder) dial() (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range f.to {
		f.last = f.to[f.turn%len(f.to)]
		f.turn++
		if conn, err := net.Dial("tcp4", f.last); err == nil {
			return conn, nil
		}
	}
	return nil, io.EOF
}

func (f *forwarder) serve(ctx context.Context, from net.Conn) {
	defer from.Close()
	to, err := f.dial()
	if err != nil {
		return
	}
	defer to.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			ended <- struct{}{}
		}()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

func (f *forwarder) reached() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *forwarder) next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.to[f.turn%len(f.to)]
}

func (f *forwarder) set(to ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = to
}

// userWithoutKeepAlive returns a user whose requests have a connection each.
func userWithoutKeepAlive(t *testing.T, config *rest.Config, address string) *user {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Host = "https://" + address
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return newUserOver(t, config, &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}})
}

// TestTwoReplicasAtOneAddress: the requests of a client reach two replicas in turn. What was
// written through one is in the next list of the other, and a watch resumes at the other without
// missing an event.
func TestTwoReplicasAtOneAddress(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	replicas := map[string]*replica{}
	var addresses []string
	var config *rest.Config
	for range 2 {
		r := e.start(t, "--leader-elect=false")
		config = r.config
		address := strings.TrimPrefix(r.config.Host, "https://")
		replicas[address] = r
		addresses = append(addresses, address)
	}
	one := forward(t, addresses...)
	u := userWithoutKeepAlive(t, config, one.address)
	ctx := t.Context()

	var version string
	var watching watch.Interface
	watchedAt := map[string]int{}
	watchAt := ""
	resume := func() {
		t.Helper()
		if watching != nil {
			watching.Stop()
		}
		if one.next() == watchAt { // so that the other one is next
			must[*porchv1alpha1.PackageRevisionList](t)(u.revisions(e.namespace).List(ctx, metav1.ListOptions{Limit: 1}))
		}
		watching = must[watch.Interface](t)(u.revisions(e.namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: version}))
		watchAt = one.reached()
		watchedAt[watchAt]++
	}
	defer func() { watching.Stop() }()
	var events []string
	// until reads events until one of that resourceVersion.
	until := func(want string) {
		t.Helper()
		timeout := time.After(30 * time.Second)
		for version != want {
			select {
			case event, open := <-watching.ResultChan():
				pr, ok := event.Object.(*porchv1alpha1.PackageRevision)
				if !open || !ok {
					t.Fatalf("the watch ended before %s: %+v", want, event)
				}
				version = pr.ResourceVersion
				events = append(events, fmt.Sprintf("%s %s %s", event.Type, pr.Name, pr.Labels["n"]))
			case <-timeout:
				t.Fatalf("no event of resourceVersion %s after that of %s", want, version)
			}
		}
	}
	// listed fails the test unless a list has a revision as its write returned it.
	listed := func(name, version string) {
		t.Helper()
		list := must[*porchv1alpha1.PackageRevisionList](t)(u.revisions(e.namespace).List(ctx, metav1.ListOptions{}))
		i := slices.IndexFunc(list.Items, func(pr porchv1alpha1.PackageRevision) bool { return pr.Name == name })
		if i < 0 && version != "" || i >= 0 && list.Items[i].ResourceVersion != version {
			t.Fatalf("%s: place %d of a list of %s, want it at %q", name, i, list.ResourceVersion, version)
		}
	}
	version = must[*porchv1alpha1.PackageRevisionList](t)(u.revisions(e.namespace).List(ctx, metav1.ListOptions{})).ResourceVersion
	resume()
	var want []string
	const rounds = 12
	for n := range rounds {
		made := must[*porchv1alpha1.PackageRevision](t)(u.create(ctx, e.revision("upstream", fmt.Sprintf("p%d", n), "v1")))
		listed(made.Name, made.ResourceVersion)
		changed := must[*porchv1alpha1.PackageRevision](t)(u.revisions(e.namespace).Patch(ctx, made.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"n":"1"}}}`), metav1.PatchOptions{}))
		listed(made.Name, changed.ResourceVersion)
		want = append(want, "ADDED "+made.Name+" ", "MODIFIED "+made.Name+" 1")
		switch n % 4 {
		case 1: // a watch that received all events resumes
			until(changed.ResourceVersion)
			resume()
		case 2: // a watch that missed this event resumes
			resume()
			until(changed.ResourceVersion)
		case 3:
			if err := u.revisions(e.namespace).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			listed(made.Name, "")
			want = append(want, "DELETED "+made.Name+" 1")
		}
		if n == rounds/2 { // one is killed
			replicas[watchAt].kill()
			delete(replicas, watchAt)
			for open := true; open; {
				_, open = <-watching.ResultChan()
			}
			watchAt = ""
			resume()
		}
	}
	last := must[*porchv1alpha1.PackageRevision](t)(u.create(ctx, e.revision("upstream", "last", "v1")))
	until(last.ResourceVersion)
	if diff := cmp.Diff(append(want, "ADDED "+last.Name+" "), events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(watchedAt) != 2 {
		t.Errorf("watched at %v, not at both", watchedAt)
	}
}

// TestReady: a replica is ready when it can serve, and reports until then what it waits for. It is
// live all the time.
func TestReady(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	host := strings.TrimPrefix(e.config.Host, "https://")
	way := forward(t) // to no target
	kubeconfig := must[*clientcmdapi.Config](t)(clientcmd.LoadFromFile(filepath.Join(e.fleet.Dir, "spaces", wds, "package-server.kubeconfig")))
	for _, cluster := range kubeconfig.Clusters {
		cluster.Server = "https://" + way.address
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	health := testenv.Address(t)
	r := e.launch(t, "", "--leader-elect=false", "--wds-kubeconfig="+file, "--health-address="+health)
	ask := func(path string) (int, string) {
		resp, err := http.Get("http://" + health + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		code, text := ask("/readyz")
		return code == http.StatusInternalServerError || code == http.StatusServiceUnavailable, fmt.Sprint(code, " ", text)
	})
	if code, text := ask("/readyz"); !strings.Contains(text, "waiting for the WDS to answer") {
		t.Errorf("without a WDS: %d %s", code, text)
	}
	if code, text := ask("/healthz"); code != http.StatusOK {
		t.Errorf("without a WDS it is not alive: %d %s", code, text)
	}
	way.set(host)
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		code, text := ask("/readyz")
		return code == http.StatusOK, fmt.Sprint(code, " ", text)
	})
	// A ready replica authenticates the first client by its certificate.
	u := userWithoutKeepAlive(t, r.config, strings.TrimPrefix(r.config.Host, "https://"))
	if _, err := u.revisions(e.namespace).Get(t.Context(), "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the first request: %v", err)
	}
	raw := must[[]byte](t)(u.rest.Get().AbsPath("/readyz").Param("verbose", "").DoRaw(t.Context()))
	for _, check := range []string{"request-header-ca ok", "packages ok"} {
		if !strings.Contains(string(raw), check) {
			t.Errorf("at the port of the API, without %q:\n%s", check, raw)
		}
	}
}
