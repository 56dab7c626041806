// Package transport tests against real API servers how Bindings are carried out. There is no
// binding-controller: the tests write what it would; and there is no OCM: the tests answer as its
// agents would. The controller runs in the test process.
package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"its1", "wds1", "wds2"}})
}

const patience = testenv.Patience

var (
	bindings         = controlv1alpha1.Bindings
	customTransforms = controlv1alpha1.CustomTransforms
	namespaces       = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps       = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets          = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	services         = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	jobs             = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	roles            = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	workStatuses     = controlv1alpha1.WorkStatuses
	crds             = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

var kinds = map[string]string{
	"namespaces": "Namespace", "configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "deployments": "Deployment",
	"packagerevisions": "PackageRevision", "jobs": "Job", "clusterroles": "ClusterRole", "customresourcedefinitions": "CustomResourceDefinition", "bindings": "Binding", "customtransforms": "CustomTransform",
	"manifestworks": "ManifestWork", "managedclusters": "ManagedCluster", "workstatuses": "WorkStatus",
}

// environment is what a test works with: both spaces as a user sees them.
type environment struct {
	t        *testing.T
	fleet    *testenv.Fleet
	wds, its dynamic.Interface
	// space is the name of the WDS.
	space string
	// name is the test's own: of its namespace, and the prefix of its clusters and Bindings.
	name  string
	agent *agent
	// blind makes controllers that are started unable to read CustomTransforms, unread the
	// properties of clusters.
	blind, unread atomic.Bool
	// management are the namespaces of Open Cluster Management to which controllers that are
	// started deliver.
	management []string
	// reportLimits bound what controllers that are started keep of the reports of one cluster.
	reportLimits mailboxes.Limits
}

var installed sync.Once

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{t: t, fleet: fleet, name: testenv.Name(t), reportLimits: mailboxes.DefaultLimits()}
	e.space, e.wds, e.its = "wds1", fleet.Space(t, "wds1").Client, fleet.Space(t, "its1").Client
	installed.Do(func() {
		fleet.Space(t, "wds1").Install(t, wdsAPIs(t)...)
		fleet.Space(t, "its1").Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses"), testenv.ManagedClusterCRD(t),
			testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))...)
	})
	e.create(namespaces, "", e.name, nil)
	e.agent = newAgent(e)
	return e
}

func wdsAPIs(t *testing.T) []string {
	return testenv.APIs(t, "control.kubestellar.io_bindings", "control.kubestellar.io_customtransforms", "store.starling.io_packagerevisions", "store.starling.io_contentchunks")
}

// neighbour returns the same environment as the users of another WDS see it.
func (e *environment) neighbour() *environment {
	e.t.Helper()
	other := &environment{
		t: e.t, fleet: e.fleet, wds: e.fleet.Space(e.t, "wds2").Client, its: e.its, space: "wds2", name: e.name, agent: e.agent,
		reportLimits: e.reportLimits,
	}
	e.fleet.Space(e.t, "wds2").Install(e.t, wdsAPIs(e.t)...)
	other.create(namespaces, "", e.name, nil)
	return other
}

func (e *environment) client(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if resource == clusters.ManagedClusters || resource == ocm.ManifestWorks || resource == workStatuses {
		return e.its.Resource(resource)
	}
	return e.wds.Resource(resource)
}

// create creates an object that goes, whatever holds it, at the end of the test.
func (e *environment) create(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	return e.createIn(e.client(resource), resource, namespace, name, fields)
}

func (e *environment) createIn(c dynamic.NamespaceableResourceInterface, resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	e.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, fields)
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kinds[resource.Resource])
	o.SetNamespace(namespace)
	o.SetName(name)
	created, err := c.Namespace(namespace).Create(e.t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	if resource != namespaces {
		e.t.Cleanup(func() { e.remove(c, namespace, name) })
	}
	return created
}

func (e *environment) remove(c dynamic.NamespaceableResourceInterface, namespace, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), patience)
	defer cancel()
	_, _ = c.Namespace(namespace).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err := c.Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		e.t.Errorf("clean up: %v", err)
	}
}

func (e *environment) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) *unstructured.Unstructured {
	e.t.Helper()
	o, err := e.client(resource).Namespace(namespace).Patch(e.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		e.t.Fatal(err)
	}
	return o
}

func (e *environment) delete(resource schema.GroupVersionResource, namespace, name string) {
	e.t.Helper()
	if err := e.client(resource).Namespace(namespace).Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// configMap creates a ConfigMap in the test's namespace and returns how a Binding lists it.
func (e *environment) configMap(name, content string) entry {
	e.t.Helper()
	e.create(configMaps, e.name, name, map[string]any{"data": map[string]any{"content": content}})
	return entry{resource: configMaps, namespace: e.name, name: name}
}

func (e *environment) edit(name, content string) {
	e.t.Helper()
	e.patch(configMaps, e.name, name, fmt.Sprintf(`{"data":{"content":%q}}`, content))
}

// clusters creates n accepted clusters with their mailboxes, and returns their names.
func (e *environment) clusters(n int) []string {
	e.t.Helper()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", e.name, i+1)
		e.cluster(names[i])
	}
	return names
}

func (e *environment) cluster(name string) {
	e.t.Helper()
	e.createIn(e.its.Resource(namespaces), namespaces, "", name, nil)
	e.t.Cleanup(func() { e.empty(name) })
	e.create(clusters.ManagedClusters, "", name, map[string]any{"spec": map[string]any{"hubAcceptsClient": true}})
}

// empty removes the works of a mailbox: every controller of the tests to come would read them, some
// of which are large.
func (e *environment) empty(mailbox string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), patience)
	defer cancel()
	works := e.its.Resource(ocm.ManifestWorks).Namespace(mailbox)
	list, err := works.List(ctx, metav1.ListOptions{})
	if err != nil {
		e.t.Errorf("clean up: %v", err)
		return
	}
	for i := range list.Items {
		name := list.Items[i].GetName()
		if err := works.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			e.t.Errorf("clean up: %v", err)
		}
		_, err := works.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			e.t.Errorf("clean up: %v", err)
		}
	}
}

// entry is an object that a Binding lists.
type entry struct {
	resource        schema.GroupVersionResource
	namespace, name string
	createOnly      bool
	// asks: its status is asked for.
	asks bool
}

func spec(destinations []string, entries ...entry) map[string]any {
	var clusterScope, namespaceScope []any
	for _, e := range entries {
		o := map[string]any{
			"group": e.resource.Group, "version": e.resource.Version, "resource": e.resource.Resource,
			"name": e.name, "resourceVersion": "1", "createOnly": e.createOnly,
			"wantMultiWECReportedState": e.asks,
		}
		if e.namespace == "" {
			clusterScope = append(clusterScope, o)
			continue
		}
		o["namespace"] = e.namespace
		namespaceScope = append(namespaceScope, o)
	}
	sites := []any{}
	for _, d := range destinations {
		sites = append(sites, map[string]any{"clusterId": d})
	}
	return map[string]any{
		"workload":     map[string]any{"clusterScope": clusterScope, "namespaceScope": namespaceScope},
		"destinations": sites,
	}
}

// bind creates a Binding of the test's name.
func (e *environment) bind(destinations []string, entries ...entry) *unstructured.Unstructured {
	e.t.Helper()
	return e.create(bindings, "", e.name, map[string]any{"spec": spec(destinations, entries...)})
}

// rebind changes what the Binding says.
func (e *environment) rebind(destinations []string, entries ...entry) {
	e.t.Helper()
	raw, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec(destinations, entries...)}})
	if err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.wds.Resource(bindings).Patch(e.t.Context(), e.name, types.JSONPatchType, raw, metav1.PatchOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

// settled waits until the Binding has not been written for longer than the controller gathers what
// clusters answer.
func (e *environment) settled() {
	e.t.Helper()
	testenv.Still(e.t, testenv.Held, func() string { return e.binding().ResourceVersion })
}

// reported waits until the agents have reported on every work of these clusters as it is, and the
// controller has nothing to do about that.
func (e *environment) reported(c *running, sites []string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		for _, site := range sites {
			for _, work := range e.works(site) {
				for _, m := range work.Status.ResourceStatus.Manifests {
					if m.Conditions[0].ObservedGeneration != work.Generation {
						return false, fmt.Sprintf("work %s/%s: generation %d, %+v", site, work.Name, work.Generation, m)
					}
				}
			}
		}
		return true, ""
	})
	idle(e.t, c)
}

func (e *environment) binding() *controlv1alpha1.Binding {
	e.t.Helper()
	return testenv.Get[controlv1alpha1.Binding](e.t, e.wds.Resource(bindings), e.name)
}

// expectCondition waits until a condition of the Binding has the status and reason at the current
// generation.
func (e *environment) expectCondition(kind string, status metav1.ConditionStatus, reason string) *controlv1alpha1.Binding {
	e.t.Helper()
	var b *controlv1alpha1.Binding
	testenv.Eventually(e.t, patience, func() (bool, string) {
		b = e.binding()
		if b == nil {
			return false, "the Binding is gone"
		}
		c := meta.FindStatusCondition(b.Status.Conditions, kind)
		ok := c != nil && c.Status == status && c.Reason == reason && c.ObservedGeneration == b.Generation && b.Status.ObservedGeneration == b.Generation
		return ok, fmt.Sprintf("generation %d, status %+v", b.Generation, b.Status)
	})
	return b
}

// expectMessage waits until the condition has this reason and this message: while the reason stays,
// clusters may come into the message and leave it.
func (e *environment) expectMessage(kind, reason, message string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		b := e.binding()
		if b == nil {
			return false, "the Binding is gone"
		}
		c := meta.FindStatusCondition(b.Status.Conditions, kind)
		return c != nil && c.Reason == reason && c.Message == message, fmt.Sprintf("%+v, want %s: %q", b.Status, reason, message)
	})
}

func (e *environment) applied() *controlv1alpha1.Binding {
	e.t.Helper()
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionTrue, controlv1alpha1.ReasonDelivered)
	return e.expectCondition(controlv1alpha1.BindingConditionApplied, metav1.ConditionTrue, controlv1alpha1.ReasonApplied)
}

// works returns the works in a mailbox, sorted by name.
func (e *environment) works(mailbox string) []workv1.ManifestWork {
	e.t.Helper()
	list, err := e.its.Resource(ocm.ManifestWorks).Namespace(mailbox).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	works := make([]workv1.ManifestWork, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &works[i]); err != nil {
			e.t.Fatal(err)
		}
	}
	slices.SortFunc(works, func(a, b workv1.ManifestWork) int { return strings.Compare(a.Name, b.Name) })
	return works
}

// contents returns what a mailbox holds, as "Kind namespace/name: content of a ConfigMap", sorted.
func (e *environment) contents(mailbox string) []string {
	e.t.Helper()
	var contents []string
	for _, work := range e.works(mailbox) {
		if work.DeletionTimestamp != nil {
			continue
		}
		contents = append(contents, describe(e.t, &work)...)
	}
	slices.Sort(contents)
	return contents
}

func describe(t *testing.T, work *workv1.ManifestWork) []string {
	t.Helper()
	var lines []string
	for i := range work.Spec.Workload.Manifests {
		var o unstructured.Unstructured
		if err := json.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &o.Object); err != nil {
			t.Fatal(err)
		}
		line := o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		if content, ok, _ := unstructured.NestedString(o.Object, "data", "content"); ok {
			line += ": " + content
		}
		lines = append(lines, line)
	}
	return lines
}

// expectContents waits until a mailbox holds exactly this.
func (e *environment) expectContents(mailbox string, want ...string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		got := e.contents(mailbox)
		return slices.Equal(want, got), fmt.Sprintf("%s holds %q, want %q; status: %+v", mailbox, got, want, statusOf(e.binding()))
	})
}

func statusOf(b *controlv1alpha1.Binding) any {
	if b == nil {
		return "no Binding"
	}
	return b.Status
}

// requests counts the requests of the controller, as "its1 patch manifestworks".
type requests struct {
	mu     sync.Mutex
	count  map[string]int
	within nested.Map[string, string, int] // the same, by namespace
}

func (r *requests) wrap(config *rest.Config, space string) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(q *http.Request) (*http.Response, error) {
			r.note(space, q)
			return next.RoundTrip(q)
		})
	})
	return config
}

func (r *requests) note(space string, q *http.Request) {
	verb := strings.ToLower(q.Method)
	if q.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	parts := strings.Split(strings.Trim(q.URL.Path, "/"), "/")
	i := slices.Index(parts, "namespaces") + 2
	if i < 2 || i >= len(parts) { // cluster-scoped, all namespaces, or Namespaces themselves
		i = min(map[string]int{"api": 2, "apis": 3}[parts[0]], len(parts)-1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := space + " " + verb + " " + parts[i]
	r.count[key]++
	if n := slices.Index(parts, "namespaces") + 1; n > 0 && n < len(parts) {
		r.within.Set(parts[n], key, r.within[parts[n]][key]+1)
	}
}

// madeIn returns the requests since the last reset about objects in these namespaces.
func (r *requests) madeIn(namespaces ...string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := map[string]int{}
	for _, namespace := range namespaces {
		for key, n := range r.within[namespace] {
			made[key] += n
		}
	}
	return made
}

func (r *requests) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.count)
	clear(r.within)
}

// made returns the requests since the last reset, without those that only watch.
func (r *requests) made() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := map[string]int{}
	for key, n := range r.count {
		if !strings.Contains(key, " watch ") {
			made[key] = n
		}
	}
	return made
}

// running is a running controller.
type running struct {
	*requests
	stop func()
}

// start runs the controller until the test ends, or until stop.
func (e *environment) start(limits packing.Limits, more ...plugin.ITS) *running {
	e.t.Helper()
	r, controller := e.startWhen(testenv.Leading(), limits, more...)
	testenv.Eventually(e.t, patience, func() (bool, string) {
		err := controller.Ready()
		return err == nil || len(more) > 0 || e.blind.Load(), fmt.Sprint(err)
	})
	return r
}

// startWhen runs a controller that stands by until leading is closed.
func (e *environment) startWhen(leading <-chan struct{}, limits packing.Limits, more ...plugin.ITS) (*running, *transport.Controller) {
	e.t.Helper()
	r := &requests{count: map[string]int{}}
	wdsConfig, itsConfig := r.wrap(e.fleet.Config(e.t, e.space), e.space), r.wrap(e.fleet.Config(e.t, "its1"), "its1")
	wdsConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(q *http.Request) (*http.Response, error) {
			if e.blind.Load() && strings.HasSuffix(q.URL.Path, "/customtransforms") {
				return nil, errors.New("not now")
			}
			return next.RoundTrip(q)
		})
	})
	itsConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(q *http.Request) (*http.Response, error) {
			if e.unread.Load() && strings.Contains(q.URL.Path, "/"+controlv1alpha1.PropertiesNamespace+"/") {
				return nil, errors.New("not now")
			}
			return next.RoundTrip(q)
		})
	})
	must := func(err error) {
		e.t.Helper()
		if err != nil {
			e.t.Fatal(err)
		}
	}
	bindingClient, err := client.New(wdsConfig)
	must(err)
	informer, err := client.NewInformer(bindingClient.Bindings(), &controlv1alpha1.Binding{}, cache.Indexers{})
	must(err)
	transformInformer, err := client.NewInformer(bindingClient.CustomTransforms(), &controlv1alpha1.CustomTransform{}, cache.Indexers{})
	must(err)
	metadataClient, err := metadata.NewForConfig(wdsConfig)
	must(err)
	objects, err := dynamic.NewForConfig(wdsConfig)
	must(err)
	files, err := content.New(wdsConfig, clock.RealClock{})
	must(err)
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(wdsConfig)
	must(err)
	writer, err := writer.New(wdsConfig, e.space, ocm.FieldManager)
	must(err)
	uid := e.wdsUID()
	controller, err := transport.New(transport.Config{
		WDS: placement.WDS{
			Bindings:         informer,
			CustomTransforms: transformInformer,
			Metadata:         dynamicinformer.MetadataInformer(metadataClient),
			Objects:          objects,
			Versions:         metadataClient,
			Packages:         placement.PackagesOf(objects, files, client.NewKinds(discoveryClient, clock.RealClock{})),
			Writer:           writer,
		},
		ITSes: append([]plugin.ITS{{Name: "its1", Connect: func(context.Context) (plugin.Plugin, error) {
			return ocm.New(ocm.Config{Space: "its1", Hub: itsConfig, WDSName: e.space, WDSUID: uid, ReportLimits: e.reportLimits})
		}}}, more...),
		Limits:      limits,
		Concurrency: 8,

		ManagementNamespaces: e.management,
	})
	must(err)
	stop := testenv.Run(e.t, func(ctx context.Context) error { return controller.Run(ctx, leading) })
	return &running{requests: r, stop: stop}, controller
}

var roomy = packing.Limits{Count: 512000, Bytes: 512000}

func (e *environment) wdsUID() types.UID {
	e.t.Helper()
	ns, err := e.wds.Resource(namespaces).Get(e.t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return ns.GetUID()
}

// idle waits until a controller has written nothing for so long that it holds nothing back any
// more.
func idle(t *testing.T, c *running) {
	t.Helper()
	testenv.Still(t, testenv.Held, func() (writes int) {
		for key, made := range c.made() {
			if !strings.Contains(key, " get ") {
				writes += made
			}
		}
		return writes
	})
}

// quiet expects of a controller that was restarted that it writes nothing while it looks at
// everything.
func quiet(t *testing.T, c *running) {
	t.Helper()
	testenv.Never(t, testenv.Held, func() string {
		for key, n := range c.made() {
			if !strings.Contains(key, " get ") {
				return fmt.Sprintf("after the restart: %d x %s, want reads only", n, key)
			}
		}
		return ""
	})
}
