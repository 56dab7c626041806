// Package destinations tests against real API servers what transactions of packages do to clusters.
// The controllers of transactions, of policies and of the transport run in the test process. There
// is no Open Cluster Management: the tests answer as its agents would.
package destinations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/transactions"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/settings"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transactions/destinations"
	"github.com/starlinghq/starling/pkg/transport"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

var (
	crds       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// hub is a WDS and an ITS, with a registry of packages.
type hub struct {
	fleet    *testenv.Fleet
	wds, its *testenv.Space
	uid      types.UID // of the WDS
	registry *testxpkg.Registry
	// beforeLock is called before the controller of transactions writes a Lock of a cluster.
	beforeLock func()
	// outage: the controller of transactions cannot reach the ITS.
	outage atomic.Bool
	// recheck is how often clusters that keep what they have are validated again.
	recheck time.Duration
}

// fleets: a WDS has one Lock, so each test has a fleet.
var fleets = testenv.Pool{
	Options: testenv.Options{Spaces: []string{"its1", "wds1"}},
	Prepare: func(t testing.TB, fleet *testenv.Fleet) {
		t.Helper()
		wds, its := fleet.Space(t, "wds1"), fleet.Space(t, "its1")
		wds.Install(t, testenv.APIs(t, "pkg.crossplane.io_", "control.kubestellar.io_", "store.starling.io_")...)
		its.Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses", "pkg.crossplane.io_locks"), testenv.ManagedClusterCRD(t),
			testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))...)
		wds.InstallRights(t, "wds")
		its.InstallRights(t, "its")
	},
}

// newHub returns a fleet with the controllers of policies and of the transport.
func newHub(t *testing.T) *hub {
	t.Helper()
	fleet := fleets.Lend(t)
	h := &hub{fleet: fleet, wds: fleet.Space(t, "wds1"), its: fleet.Space(t, "its1"), beforeLock: func() {}}
	h.uid = h.wds.Get(t, namespaces, "", "kube-system").GetUID()
	registry, err := testxpkg.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(registry.Close)
	h.registry = registry
	return h
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// reader returns the clusters, which are read until the test ends.
func (h *hub) reader(t *testing.T) *clusters.Reader {
	t.Helper()
	reader := clusters.New(clusters.ITS{Name: "its1", Connect: func(context.Context) (clusters.Source, error) {
		return clusters.NewSource(h.its.AsServiceAccount("starling-system", "binding-controller"))
	}})
	testenv.Run(t, reader.Run)
	return reader
}

// runBindings runs the controller of policies until the test ends.
func (h *hub) runBindings(t *testing.T) {
	t.Helper()
	running, err := binding.Setup(binding.SetupConfig{WDS: h.wds.Config, WDSName: "wds1", Clusters: h.reader(t), Settings: settings.Bindings{MaxBindingSize: corebinding.DefaultMaxSize}})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, func(ctx context.Context) error { return running.Run(ctx, testenv.Leading(), 4, binding.Observers{}) })
	testenv.Ready(t, running.Ready)
}

// runTransport runs the transport until the test ends.
func (h *hub) runTransport(t *testing.T) (stop func()) {
	t.Helper()
	config := h.wds.Config
	control := must[*client.Client](t)(client.New(config))
	objects := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	partial := must[metadata.Interface](t)(metadata.NewForConfig(config))
	found := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(config))
	controller := must[*transport.Controller](t)(transport.New(transport.Config{
		WDS: placement.WDS{
			Bindings:         must[cache.SharedIndexInformer](t)(client.NewInformer(control.Bindings(), &controlv1alpha1.Binding{}, cache.Indexers{})),
			CustomTransforms: must[cache.SharedIndexInformer](t)(client.NewInformer(control.CustomTransforms(), &controlv1alpha1.CustomTransform{}, cache.Indexers{})),
			Metadata:         dynamicinformer.MetadataInformer(partial), Objects: objects, Versions: partial,
			Packages: placement.PackagesOf(objects, must[*content.Store](t)(content.New(config, clock.RealClock{})), client.NewKinds(found, clock.RealClock{})),
			Writer:   must[*writer.Writer](t)(writer.New(config, "wds1", ocm.FieldManager)),
		},
		ITSes: []plugin.ITS{{Name: "its1", Connect: func(context.Context) (plugin.Plugin, error) {
			return ocm.New(ocm.Config{Space: "its1", Hub: h.its.Config, WDSName: "wds1", WDSUID: h.uid, ReportLimits: mailboxes.DefaultLimits()})
		}}},
		Limits: packing.Limits{Count: 512000, Bytes: 512000}, Concurrency: 8,
	}))
	stop = testenv.Run(t, func(ctx context.Context) error { return controller.Run(ctx, testenv.Leading()) })
	testenv.Ready(t, controller.Ready)
	return stop
}

// run runs the controller of transactions until the test ends, or stop is called.
func (h *hub) run(t *testing.T) (stop func()) {
	t.Helper()
	fetcher := must[*xpkg.Fetcher](t)(xpkg.New(xpkg.Options{Cache: t.TempDir(), CacheBytes: 1 << 30, Limits: xpkg.DefaultLimits(), Clock: clock.RealClock{}}))
	t.Cleanup(fetcher.Close)
	config := h.its.AsServiceAccount("starling-system", "binding-controller")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(q *http.Request) (*http.Response, error) {
			if q.Method != http.MethodGet && strings.Contains(q.URL.Path, "/locks") {
				h.beforeLock()
			}
			if h.outage.Load() {
				return nil, errors.New("connect: connection refused")
			}
			return next.RoundTrip(q)
		})
	})
	its := must[*destinations.ITS](t)(destinations.NewITS("its1", config, "starling-transactions"))
	controller, watch, err := transactions.Setup(transactions.SetupConfig{
		WDS: h.wds.AsServiceAccount("starling-system", "binding-controller"), WDSName: "wds1", Fetcher: fetcher, Namespace: "starling-system", Events: events.NewFakeRecorder(10_000), Clock: clock.RealClock{},
		WDSUID: h.uid, Clusters: h.reader(t), ITSes: map[string]*destinations.ITS{"its1": its}, Recheck: h.recheck,
	})
	if err != nil {
		t.Fatal(err)
	}
	stop = testenv.Run(t, watch.Run, testenv.Workers(controller.Run, 4))
	testenv.Ready(t, controller.Ready)
	return stop
}

// cluster creates an accepted cluster.
func (h *hub) cluster(t *testing.T, name, env string) {
	t.Helper()
	h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
	h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+name+", labels: {env: "+env+"}}, spec: {hubAcceptsClient: true}}")
}

// policy creates a policy that carries everything labelled app=a to clusters labelled env=prod.
func (h *hub) policy(t *testing.T) {
	t.Helper()
	h.wds.Apply(t, `{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy, metadata: {name: all}, spec: {
		clusterSelectors: [{matchLabels: {env: prod}}], downsync: [{objectSelectors: [{matchLabels: {app: a}}]}]}}`)
}

func (h *hub) push(t *testing.T, path, tag string, pkg *core.Package) {
	t.Helper()
	if _, err := h.registry.PushPackage(context.WithoutCancel(t.Context()), path, tag, pkg); err != nil {
		t.Fatal(err)
	}
}

// apply applies the Provider s3, whose objects are labelled app=a.
func (h *hub) apply(t *testing.T, name, tag string, annotations ...string) {
	t.Helper()
	h.wds.Apply(t, fmt.Sprintf("{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: %s, annotations: {%s}}, spec: {package: %q, commonLabels: {app: a}}}",
		name, strings.Join(annotations, ", "), h.registry.Source("org/"+name)+":"+tag))
}

// becomes waits until the last Transaction of a package has this status and reason of Ready, and
// returns it.
func (h *hub) becomes(t *testing.T, pkg, status, reason string) *pkgv1alpha1.Transaction {
	t.Helper()
	var tx *pkgv1alpha1.Transaction
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		tx = nil
		for _, other := range testenv.List[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), metav1.ListOptions{}) {
			if other.Labels[pkgv1.LabelPackage] == pkg && (tx == nil || tx.Labels[pkgv1.LabelGeneration] < other.Labels[pkgv1.LabelGeneration]) {
				tx = other
			}
		}
		if tx == nil {
			return false, "no transaction for " + pkg
		}
		ready := meta.FindStatusCondition(tx.Status.Conditions, "Ready")
		p := testenv.Get[pkgv1.Provider](t, h.wds.Client.Resource(pkgv1.Providers), pkg)
		return ready != nil && string(ready.Status) == status && ready.Reason == reason && (p == nil || tx.Labels[pkgv1.LabelGeneration] == fmt.Sprint(p.Generation)),
			fmt.Sprintf("%s: %+v", tx.Name, tx.Status.Conditions)
	})
	return tx
}

func message(tx *pkgv1alpha1.Transaction, kind string) string {
	c := meta.FindStatusCondition(tx.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// lock returns the Lock of a cluster as text: versions of packages, and what wrote them.
func (h *hub) lock(t *testing.T, cluster string) string {
	t.Helper()
	lock := testenv.Get[pkgv1beta1.Lock](t, h.its.Client.Resource(pkgv1beta1.Locks), cluster)
	if lock == nil {
		return ""
	}
	var packages []string
	for _, p := range lock.Packages {
		version, _, _ := strings.Cut(p.Version, "@")
		packages = append(packages, p.Source[strings.LastIndexByte(p.Source, '/')+1:]+" "+version)
	}
	return strings.Join(packages, ", ")
}

// manifests returns the fields of the spec of buckets that the CRD in a mailbox has, and the names
// of other objects.
func (h *hub) manifests(t *testing.T, cluster string) string {
	t.Helper()
	list, err := h.its.Client.Resource(ocm.ManifestWorks).Namespace(cluster).List(t.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelWDSUID + "=" + string(h.uid)})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for i := range list.Items {
		work := testenv.Into[workv1.ManifestWork](t, &list.Items[i])
		for n := range work.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			if err := json.Unmarshal(work.Spec.Workload.Manifests[n].Raw, &o.Object); err != nil {
				t.Fatal(err)
			}
			text := o.GetKind() + " " + o.GetName()
			if versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions"); len(versions) > 0 {
				version, _ := versions[0].(map[string]any)
				fields, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema", "properties", "spec", "properties")
				for field := range fields {
					text += " " + field
				}
			}
			found = append(found, text)
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}

// eventually waits until a text is as wanted.
func eventually(t *testing.T, want string, get func() string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := get()
		return got == want, fmt.Sprintf("%q, want %q", got, want)
	})
}

// holds returns the annotation with what transactions hold.
func (h *hub) holds(t *testing.T) string {
	t.Helper()
	b := testenv.Get[controlv1alpha1.Binding](t, h.wds.Client.Resource(controlv1alpha1.Bindings), pkgv1.HoldsBinding)
	if b == nil {
		return "no Binding"
	}
	return b.Annotations[pkgv1.AnnotationHeldObjects]
}

// foreign creates a work of another WDS.
func (h *hub) foreign(t *testing.T, cluster, name string, manifest string) {
	t.Helper()
	h.its.Apply(t, fmt.Sprintf(`{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: %s, namespace: %s, labels: {
		starling.io/wds-uid: other-uid, transport.kubestellar.io/originWdsName: other, starling.io/binding-uid: other-binding, starling.io/wave: "1"}},
		spec: {workload: {manifests: [%s]}}}`, name, cluster, manifest))
}

// deliverTo has a policy carry objects with a label to clusters with a label env.
func (h *hub) deliverTo(t *testing.T, policy, key, value, env string) {
	t.Helper()
	h.wds.Apply(t, fmt.Sprintf(`{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy, metadata: {name: %s}, spec: {
		clusterSelectors: [{matchLabels: {env: %s}}], downsync: [{objectSelectors: [{matchLabels: {%s: %s}}]}]}}`, policy, env, key, value))
}

// held returns the condition Held of a Binding.
func (h *hub) held(t *testing.T, binding string) string {
	t.Helper()
	b := testenv.Get[controlv1alpha1.Binding](t, h.wds.Client.Resource(controlv1alpha1.Bindings), binding)
	if b == nil {
		return "no Binding"
	}
	c := meta.FindStatusCondition(b.Status.Conditions, controlv1alpha1.BindingConditionHeld)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// running returns the Transaction that holds the Lock.
func (h *hub) running(t *testing.T) string {
	t.Helper()
	lock := testenv.Get[pkgv1beta1.Lock](t, h.wds.Client.Resource(pkgv1beta1.Locks), pkgv1beta1.LockName)
	return lock.Annotations[pkgv1beta1.AnnotationCurrentTransaction]
}
