package binding

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
		"binding-controller-binding": true, "binding-controller-status": true, "binding-controller-packages": true, "binding-controller-transactions": true, "transport-controller": false, "": false,
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
		for _, name := range []string{"binding-controller-binding", "binding-controller-status", "binding-controller-packages", "binding-controller-transactions"} {
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

// process starts a binding-controller as a process. It returns which of its controllers work, and
// what ends it as Kubernetes ends a pod.
func (e *environment) process(args ...string) (running func() []string, stop func()) {
	e.t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		e.t.Fatal(err)
	}
	log := &output{}
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), "binding-controller"), append([]string{
		"--wds-kubeconfig=" + e.fleet.Kubeconfig(), "--wds-context=wds1", "--its-name=its1", "--its-kubeconfig=" + e.fleet.Kubeconfig(),
	}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
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
			e.t.Logf("log of binding-controller %v:\n%s", args, log)
		}
	})
	return func() []string {
		select {
		case <-ended:
			return nil
		default:
		}
		return working(log.String())
	}, stop
}

// output is what a process writes. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// working returns which controllers of policies have begun to write, as the log of a process says.
func working(log string) []string {
	var found []string
	for _, controller := range []string{"binding", "status"} {
		for line := range strings.Lines(log) {
			if strings.Contains(line, `"Starting workers"`) && strings.Contains(line, fmt.Sprintf("controller=%q", controller)) {
				found = append(found, controller)
				break
			}
		}
	}
	return found
}
