package transactions

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/controller/transactions"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

var getOptions = metav1.GetOptions{}

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// hub is a WDS with the controller, and a registry.
type hub struct {
	*testenv.Space
	registry *testxpkg.Registry
	// generations are those of packages that the test applied last.
	generations map[string]int64
}

// fleets: a WDS has one Lock, so each test has a fleet.
var fleets = testenv.Pool{
	Options: testenv.Options{Spaces: []string{"wds1"}},
	Prepare: func(t testing.TB, fleet *testenv.Fleet) {
		t.Helper()
		wds := fleet.Space(t, "wds1")
		wds.Install(t, testenv.APIs(t, "pkg.crossplane.io_")...)
		wds.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: starling-system}}")
	},
}

func newHub(t *testing.T) *hub {
	t.Helper()
	registry, err := testxpkg.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	h := &hub{Space: fleets.Lend(t).Space(t, "wds1"), registry: registry, generations: map[string]int64{}}
	t.Cleanup(func() { h.logState(t) })
	return h
}

// logState logs the Transactions and the Lock if the test has failed.
func (h *hub) logState(t *testing.T) {
	if !t.Failed() {
		return
	}
	for _, resource := range []schema.GroupVersionResource{pkgv1alpha1.Transactions, pkgv1beta1.Locks} {
		list, err := h.Client.Resource(resource).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		if err != nil {
			t.Log(err)
			continue
		}
		for n := range list.Items {
			o := &list.Items[n]
			o.SetManagedFields(nil)
			text, _ := json.Marshal(o)
			t.Logf("%s", text)
		}
	}
}

// run runs the controller until the test ends, or stop is called.
func (h *hub) run(t *testing.T) (stop func()) {
	t.Helper()
	fetcher, err := xpkg.New(xpkg.Options{Cache: t.TempDir(), CacheBytes: 1 << 30, Limits: xpkg.DefaultLimits(), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fetcher.Close)
	controller, watch, err := transactions.Setup(transactions.SetupConfig{
		WDS: h.Config, WDSName: "wds1", Fetcher: fetcher, Namespace: "starling-system", Events: events.NewFakeRecorder(10_000), Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = testenv.Run(t, watch.Run, testenv.Workers(controller.Run, 4))
	testenv.Ready(t, controller.Ready)
	return stop
}

func (h *hub) push(t *testing.T, path, tag string, pkg *core.Package) (digest string) {
	t.Helper()
	digest, err := h.registry.PushPackage(context.WithoutCancel(t.Context()), path, tag, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// apply applies a package.
func (h *hub) apply(t *testing.T, kind, name, path, tag string, more ...string) {
	t.Helper()
	text := fmt.Sprintf("{apiVersion: pkg.crossplane.io/v1, kind: %s, metadata: {name: %s}, spec: {package: %q", kind, name, h.registry.Source(path)+":"+tag)
	for _, field := range more {
		text += ", " + field
	}
	h.generations[name] = h.Apply(t, text+"}}")[0].GetGeneration()
}

func (h *hub) transactions(t *testing.T) map[string]*pkgv1alpha1.Transaction {
	t.Helper()
	return testenv.List[pkgv1alpha1.Transaction](t, h.Client.Resource(pkgv1alpha1.Transactions), metav1.ListOptions{})
}

// of returns the Transaction that was created last for a package.
func (h *hub) of(t *testing.T, pkg string) *pkgv1alpha1.Transaction {
	t.Helper()
	var last *pkgv1alpha1.Transaction
	for _, tx := range h.transactions(t) {
		if tx.Labels["pkg.crossplane.io/package"] == pkg && (last == nil || generation(t, last) < generation(t, tx)) {
			last = tx
		}
	}
	return last
}

// generation returns the generation of the package that a Transaction was created for.
func generation(t *testing.T, tx *pkgv1alpha1.Transaction) int {
	t.Helper()
	n, err := strconv.Atoi(tx.Labels["pkg.crossplane.io/transaction-generation"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// becomes waits until the Transaction of what was last applied for a package has this status and
// reason of Ready, and returns it.
func (h *hub) becomes(t *testing.T, pkg string, status metav1.ConditionStatus, reason string) *pkgv1alpha1.Transaction {
	t.Helper()
	var tx *pkgv1alpha1.Transaction
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		if tx = h.of(t, pkg); tx == nil || int64(generation(t, tx)) < h.generations[pkg] {
			return false, "no transaction for " + pkg
		}
		ready := meta.FindStatusCondition(tx.Status.Conditions, "Ready")
		var states []string
		for _, c := range tx.Status.Conditions {
			states = append(states, c.Type+"="+string(c.Status)+" "+c.Reason+" "+c.Message)
		}
		return ready != nil && ready.Status == status && ready.Reason == reason, tx.Name + ": " + strings.Join(states, "; ")
	})
	return tx
}

func (h *hub) lock(t *testing.T) *pkgv1beta1.Lock {
	t.Helper()
	return testenv.Get[pkgv1beta1.Lock](t, h.Client.Resource(pkgv1beta1.Locks), "lock")
}

// free waits until no Transaction holds the Lock, and returns it.
func (h *hub) free(t *testing.T) *pkgv1beta1.Lock {
	t.Helper()
	var lock *pkgv1beta1.Lock
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		lock = h.lock(t)
		holder := lock.Annotations[pkgv1beta1.AnnotationCurrentTransaction]
		return holder == "", "held by " + holder
	})
	return lock
}

// exists returns an object, and ends the test if there is none.
func (h *hub) exists(t *testing.T, resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	t.Helper()
	o := h.Get(t, resource, "", name)
	if o == nil {
		t.Fatalf("%s %q does not exist", resource.Resource, name)
	}
	return o
}

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// notStarted is the warning about the programs of packages.
func notStarted(what string) string {
	return "Starling installs what " + what + ", and starts no program: that runs in clusters, where somebody installs it"
}
