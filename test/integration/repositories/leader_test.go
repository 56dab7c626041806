package repositories

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// replica is a binding-controller of its own process.
type replica struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	kill func()
}

// replica starts one that runs the controllers of packages.
func (e *environment) replica(t *testing.T) *replica {
	t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{}
	r.cmd = exec.Command(filepath.Join(filepath.Dir(binary), "binding-controller"), "--controllers=packages", "--health-address="+testenv.Address(t),
		"--wds-kubeconfig="+testenv.Shared(t).Kubeconfig(), "--wds-context=wds1")
	r.cmd.Stdout, r.cmd.Stderr = &r.log, &r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = r.cmd.Wait()
		close(ended)
	}()
	r.kill = sync.OnceFunc(func() {
		_ = r.cmd.Process.Kill()
		<-ended
	})
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("log of a replica:\n%s", r.log.String())
		}
	})
	return r
}

// lease is what replicas contend for.
const lease = "binding-controller-packages"

func (e *environment) leases() dynamic.ResourceInterface {
	return e.client.Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}).Namespace(runner.Namespace)
}

// shortenLease lets the lease of a leader that was killed expire in a second, not in 15.
func (e *environment) shortenLease(t *testing.T) {
	t.Helper()
	if _, err := e.leases().Patch(t.Context(), lease, types.MergePatchType, []byte(`{"spec":{"leaseDurationSeconds":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// holder returns the identity of the leader.
func (e *environment) holder(t *testing.T) string {
	t.Helper()
	lease, err := e.leases().Get(t.Context(), lease, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	return holder
}

// TestLeaderKilledDuringAnExport kills the leader while it pushes, before or after the server has
// accepted the push. The other replica becomes the leader, and there is one tag and one commit.
func TestLeaderKilledDuringAnExport(t *testing.T) {
	for name, taken := range map[string]bool{"BeforeThePush": false, "AfterThePush": true} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": runner.Namespace}}}
			namespaces := e.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
			if _, err := namespaces.Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			// Nobody is left of those who were killed before, and nobody need wait for what they
			// held.
			if err := e.leases().Delete(t.Context(), lease, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			r, s := testgit.New(t), testgit.Serve(t)
			r.Package("other", "stays")
			base := r.Commit("main", "base")
			backend, err := url.Parse(s.Server.URL)
			if err != nil {
				t.Fatal(err)
			}
			forward := httputil.NewSingleHostReverseProxy(backend)
			pushed, killed := make(chan struct{}), make(chan struct{})
			var first sync.Once
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				interrupt := false
				if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/git-receive-pack") {
					first.Do(func() { interrupt = true })
				}
				if !interrupt {
					forward.ServeHTTP(w, request)
					return
				}
				if taken { // who asked never hears of it
					forward.ServeHTTP(httptest.NewRecorder(), request)
				}
				close(pushed)
				<-killed
			}))
			defer front.Close()

			leader := e.replica(t)
			e.create(t, "out", gitSpec(front.URL+r.Dir, ""))
			e.waitForCondition(t, "out", "Ready", "Ready")
			led := e.holder(t)
			e.replica(t)
			e.publish(t, "out", "web", "first", 1, "one")
			select {
			case <-pushed:
			case <-time.After(testenv.Patience):
				t.Fatal("nothing was pushed")
			}
			leader.kill()
			e.shortenLease(t)
			close(killed)
			if got := r.Ref("refs/tags/web/v1") != ""; got != taken {
				t.Fatalf("the push was taken: %t", got)
			}
			testenv.Eventually(t, testenv.Patience, func() (bool, string) {
				external := e.revisions(t)["out.web.first"].External
				return external.ID != "" && external.ID == r.Ref("refs/tags/web/v1"), fmt.Sprintf("external %+v, led by %s", external, e.holder(t))
			})
			if e.holder(t) == led {
				t.Error("no other replica became the leader")
			}
			e.waitForCondition(t, "out", "Exported", "Exported")
			e.waitForRevisions(t, "out.other.main -1 stays", "out.web.first 1 one latest", "out.web.main -1 one")
			head := r.Ref("refs/heads/main")
			if _, parents, _ := r.Show(head); !slices.Equal(parents, []string{base}) || head != r.Ref("refs/tags/web/v1") {
				t.Errorf("the branch is at %s upon %v, want one commit upon %s", head, parents, base)
			}
			if diff := r.Refs(); !slices.Equal(diff, []string{"refs/heads/main", "refs/tags/web/v1"}) {
				t.Errorf("references %v", diff)
			}
		})
	}
}
