package binding

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/test/testenv"
)

var leases = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}

// TestOwnLeases: the binding-controller updates its own Leases and no others, so it cannot take the
// lead of another program.
func TestOwnLeases(t *testing.T) {
	e := newEnvironment(t)
	for lease, want := range map[string]bool{
		"binding-controller-binding": true, "binding-controller-status": true, "binding-controller-packages": true, "transport-controller": false, "": false,
	} {
		testenv.Allowed(t, e.fleet.Config(t, "wds1"), want, "system:serviceaccount:starling-system:binding-controller",
			authorizationv1.ResourceAttributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "starling-system", Name: lease})
	}
}

// TestOverlappingControllers: two processes with different choices of --controllers never run one
// controller twice. When the first one ends, the second one runs what it ran.
func TestOverlappingControllers(t *testing.T) {
	e := newEnvironment(t)
	e.ensureLeaseNamespace()
	first, stopFirst := e.process("--controllers=binding")
	testenv.Eventually(t, patience, func() (bool, string) { got := first(); return slices.Equal(got, []string{"binding"}), fmt.Sprint(got) })
	second, _ := e.process()
	e.eventuallyHolds("binding-controller-packages")
	testenv.Never(t, 3*time.Second, func() string { // longer than the second one takes between attempts
		if slices.Contains(second(), "binding") {
			return "both processes run the binding controller"
		}
		return ""
	})
	stopFirst()
	testenv.Eventually(t, patience, func() (bool, string) {
		got := second()
		return slices.Contains(got, "binding") && slices.Contains(got, "status"), fmt.Sprintf("the second process runs %v", got)
	})
}

// ensureLeaseNamespace creates the namespace of Leases, and deletes the Leases when the test ends,
// because killed processes do not release them.
func (e *environment) ensureLeaseNamespace() {
	e.t.Helper()
	namespace := object("", "starling-system", nil)
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	if _, err := e.wds.Resource(namespaces).Create(e.t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		for _, name := range []string{"binding-controller-binding", "binding-controller-status", "binding-controller-packages"} {
			err := e.wds.Resource(leases).Namespace("starling-system").Delete(context.WithoutCancel(e.t.Context()), name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				e.t.Error(err)
			}
		}
	})
}

func (e *environment) eventuallyHolds(lease string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		_, err := e.wds.Resource(leases).Namespace("starling-system").Get(e.t.Context(), lease, metav1.GetOptions{})
		return err == nil, fmt.Sprintf("Lease %s: %v", lease, err)
	})
}

// process starts a binding-controller as a process. It returns which of its controllers have a
// queue, and what ends it as Kubernetes ends a pod.
func (e *environment) process(args ...string) (running func() []string, stop func()) {
	e.t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		e.t.Fatal(err)
	}
	address := testenv.Address(e.t)
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), "binding-controller"), append([]string{
		"--wds-kubeconfig=" + e.fleet.Kubeconfig(), "--wds-context=wds1", "--its-name=its1", "--its-kubeconfig=" + e.fleet.Kubeconfig(),
		"--metrics-bind-address=" + address,
	}, args...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
			e.t.Error("the process did not end")
		}
	})
	e.t.Cleanup(func() {
		stop()
		if e.t.Failed() {
			e.t.Logf("log of binding-controller %v:\n%s", args, &log)
		}
	})
	return func() []string {
		select {
		case <-ended:
			return nil
		default:
		}
		return queues(e.t, "http://"+address+"/metrics")
	}, stop
}

// queues returns which controllers of policies a process runs: they are the ones that have a queue.
func queues(t *testing.T, url string) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return nil // it does not listen yet
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, controller := range []string{"binding", "status"} {
		if bytes.Contains(body, []byte(fmt.Sprintf("workqueue_unfinished_work_seconds{name=%q}", controller))) {
			found = append(found, controller)
		}
	}
	return found
}
