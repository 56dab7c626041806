// Package variantsets tests against a real API server how PackageVariantSets become PackageVariants. Nothing looks after these: the tests
// write what would come of them. The controller runs in the test process, or, where it is killed, in one of its own.
package variantsets

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/variantsets"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/pkg/packagewatch"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}}) }

// soon is far more than anything takes that is waited for, on any machine.
const soon = 2 * time.Minute

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	sets         = configv1alpha2.PackageVariantSets
	variants     = configv1alpha1.PackageVariants
	repositories = configv1alpha1.Repositories
	revisions    = storev1alpha1.PackageRevisions
	crds         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// environment is a space with our APIs, and a namespace of the test's own in it. It is a WDS and, for ManagedClusters, an ITS.
type environment struct {
	config *rest.Config
	// controllers is config with the rights that the controllers have, and no more.
	controllers *rest.Config
	client      dynamic.Interface
	namespace   string
}

var installed sync.Once

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	e := &environment{config: config, controllers: rest.CopyConfig(config), client: client}
	e.controllers.Impersonate.UserName = "system:serviceaccount:starling-system:binding-controller"
	installed.Do(func() { e.install(t) })
	e.namespace = e.create(t, namespaces, "", "{metadata: {generateName: test-}}").GetName()
	t.Cleanup(func() { e.clear(t) })
	return e
}

// clear removes what other tests would be disturbed by: sets select clusters that others make, too.
func (e *environment) clear(t *testing.T) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for _, resource := range []schema.GroupVersionResource{sets, variants} {
		found, err := e.resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range found.Items {
			e.delete(t, resource, found.Items[i].GetName())
		}
	}
	e.settle(ctx, t)
}

// settle does what the controller of PackageVariants does about those that are being deleted.
func (e *environment) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	found, err := e.resource(variants).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range found.Items {
		if found.Items[i].GetDeletionTimestamp() == nil {
			continue
		}
		_, err := e.resource(variants).Patch(ctx, found.Items[i].GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
}

// install serves our APIs, and gives the controllers their rights.
func (e *environment) install(t *testing.T) {
	t.Helper()
	files := []string{testenv.ManagedClusterCRD(t)}
	for _, pattern := range []string{"config.porch.kpt.dev_*.yaml", "store.starling.io_*.yaml", "control.kubestellar.io_*.yaml"} {
		found, err := filepath.Glob("../../../config/crd/" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatal("no CRDs ", pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range append(files, "../../../config/rbac/wds/binding-controller.yaml", "../../../config/rbac/wds/validatingadmissionpolicy.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e.apply(t, string(text))
	}
	err := clusters.WaitForResources(t.Context(), &clusters.Space{Name: "wds1", Config: e.config}, slices.Concat(packagewatch.Required, []schema.GroupVersionResource{inventory.ManagedClusters})...)
	if err != nil {
		t.Fatal(err)
	}
}

// apply applies what a text has of CRDs, of cluster-wide rights and of what bounds them.
func (e *environment) apply(t *testing.T, text string) {
	t.Helper()
	resources := map[string]schema.GroupVersionResource{
		"CustomResourceDefinition":         crds,
		"ClusterRole":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		"ClusterRoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
		"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	}
	applied := 0
	for document := range strings.SplitSeq(text, "\n---\n") {
		obj := parse(t, document)
		resource, ok := resources[obj.GetKind()]
		if !ok {
			continue
		}
		applied++
		if _, err := e.client.Resource(resource).Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if applied == 0 {
		t.Fatal("nothing to apply in ", text)
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

var kinds = map[string]string{
	"packagevariantsets": "PackageVariantSet", "packagevariants": "PackageVariant", "repositories": "Repository", "packagerevisions": "PackageRevision",
	"namespaces": "Namespace", "managedclusters": "ManagedCluster", "teams": "Team",
}

// resource is where objects of the environment are.
func (e *environment) resource(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == namespaces || resource == crds || resource == inventory.ManagedClusters {
		return e.client.Resource(resource)
	}
	return e.client.Resource(resource).Namespace(e.namespace)
}

// create creates an object that is given as YAML, with its status.
func (e *environment) create(t *testing.T, resource schema.GroupVersionResource, name, text string) *unstructured.Unstructured {
	t.Helper()
	obj := parse(t, text)
	obj.SetAPIVersion(resource.GroupVersion().String())
	obj.SetKind(kinds[resource.Resource])
	if name != "" {
		obj.SetName(name)
	}
	status := obj.Object["status"]
	out, err := e.resource(resource).Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if status != nil && resource != revisions {
		out.Object["status"] = status
		if out, err = e.resource(resource).UpdateStatus(t.Context(), out, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// patch changes an object by a merge patch that is given as YAML.
func (e *environment) patch(t *testing.T, resource schema.GroupVersionResource, name, text string, subresource ...string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.resource(resource).Patch(t.Context(), name, types.MergePatchType, raw, metav1.PatchOptions{}, subresource...); err != nil {
		t.Fatal(err)
	}
}

func (e *environment) delete(t *testing.T, resource schema.GroupVersionResource, name string) {
	t.Helper()
	err := e.resource(resource).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func list[T any](t *testing.T, e *environment, resource schema.GroupVersionResource) map[string]*T {
	t.Helper()
	found, err := e.resource(resource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*T{}
	for i := range found.Items {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, typed); err != nil {
			t.Fatal(err)
		}
		all[found.Items[i].GetName()] = typed
	}
	return all
}

func (e *environment) variants(t *testing.T) map[string]*configv1alpha1.PackageVariant {
	t.Helper()
	return list[configv1alpha1.PackageVariant](t, e, variants)
}

func (e *environment) set(t *testing.T, name string) *configv1alpha2.PackageVariantSet {
	t.Helper()
	obj, err := e.resource(sets).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set := &configv1alpha2.PackageVariantSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, set); err != nil {
		t.Fatal(err)
	}
	return set
}

// upstream makes a published revision of a package.
func (e *environment) upstream(t *testing.T, repository, pkg string, revision int, labels string) {
	t.Helper()
	e.create(t, revisions, fmt.Sprintf("%s.%s.v%d", repository, strings.ReplaceAll(pkg, "/", "."), revision), fmt.Sprintf(
		"{metadata: {labels: {%s}}, spec: {repository: %s, packageName: %s, workspaceName: v%d, revision: %d, lifecycle: Published}, content: {digest: 'sha256:%064d', files: 1}}",
		labels, repository, pkg, revision, revision, revision))
}

// repositories makes Repositories without labels.
func (e *environment) repositories(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		e.create(t, repositories, name, "{spec: {deployment: true}}")
	}
}

// condition waits until a condition of a set has a reason at its generation, and returns its message.
func (e *environment) condition(t *testing.T, set, kind, reason string) string {
	t.Helper()
	var text string
	testenv.Eventually(t, soon, func() (bool, string) {
		s := e.set(t, set)
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil {
			return false, fmt.Sprintf("%s has no condition %s", set, kind)
		}
		text = c.Message
		return c.Reason == reason && c.ObservedGeneration == s.Generation, fmt.Sprintf("%s of %s is %s (%s): %s; want %s", kind, set, c.Status, c.Reason, c.Message, reason)
	})
	return text
}

// has waits until the namespace has just these PackageVariants, those that are being deleted not counted.
func (e *environment) has(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	testenv.Eventually(t, soon, func() (bool, string) {
		got := slices.Sorted(maps.Keys(e.living(t)))
		return slices.Equal(got, names), fmt.Sprintf("there are %v, want %v", got, names)
	})
}

func (e *environment) living(t *testing.T) map[string]*configv1alpha1.PackageVariant {
	t.Helper()
	all := e.variants(t)
	maps.DeleteFunc(all, func(_ string, pv *configv1alpha1.PackageVariant) bool { return pv.DeletionTimestamp != nil })
	return all
}

// options say how the controller is run.
type options struct {
	// its is the ITS; nil is that of the environment.
	its []inventory.Space
	// allowed are kinds without namespaces.
	allowed []schema.GroupKind
	reached func(string)
}

// running is a controller that runs.
type running struct {
	// stop ends it.
	stop func()
	// writes counts what the API server has taken: a request that is refused, since it was made of an older state, changes nothing.
	writes *atomic.Int64
	// reads counts requests that read single objects.
	reads *atomic.Int64
	// asked and answered count requests that write, taken or not.
	asked, answered *atomic.Int64
}

// run runs the controller until the test ends, or stop is called.
func (e *environment) run(t *testing.T, o options) *running {
	t.Helper()
	r := &running{writes: &atomic.Int64{}, reads: &atomic.Int64{}, asked: &atomic.Int64{}, answered: &atomic.Int64{}}
	config := rest.CopyConfig(e.controllers)
	config.QPS, config.Burst = 500, 1000
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next, r} })
	watch, err := packagewatch.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if o.its == nil {
		o.its = []inventory.Space{{Name: "its1", Connect: func(context.Context) (cache.SharedIndexInformer, error) { return inventory.NewInformer(e.config) }}}
	}
	found := inventory.New(o.its...)
	controller, err := variantsets.Setup(variantsets.SetupConfig{
		WDS: config, WDSName: "wds1", Watch: watch, Clusters: found, TargetKinds: o.allowed, Reached: o.reached,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return watch.Run(ctx) })
	group.Go(func() error { return found.Run(ctx) })
	group.Go(func() error { return controller.Run(ctx, 2) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(r.stop)
	testenv.Eventually(t, soon, func() (bool, string) {
		err := controller.Ready()
		return err == nil, fmt.Sprint(err)
	})
	return r
}

// counting counts requests.
type counting struct {
	next    http.RoundTripper
	running *running
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		if !strings.Contains(request.URL.RawQuery, "watch=") && strings.Contains(request.URL.Path, "/namespaces/") {
			c.running.reads.Add(1)
		}
		return c.next.RoundTrip(request)
	}
	c.running.asked.Add(1)
	defer c.running.answered.Add(1)
	response, err := c.next.RoundTrip(request)
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		c.running.writes.Add(1)
	}
	return response, err
}

// quiet waits until nothing was written for a while, and returns how much was written before.
func (r *running) quiet(t *testing.T) int64 {
	t.Helper()
	// Longer than anything is held back: a set whose planning took long, be it that others had the processor, is planned again after two
	// seconds.
	const while = 2300 * time.Millisecond
	last, since := r.asked.Load(), time.Now()
	testenv.Eventually(t, soon, func() (bool, string) {
		if now := r.asked.Load(); now != last || now != r.answered.Load() {
			last, since = now, time.Now()
		}
		return time.Since(since) > while, "it is writing"
	})
	return r.writes.Load()
}

// golden compares a text with the one that is kept under a name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}

// described is every PackageVariant of the namespace as the API server keeps it, without what differs between two runs, and the status of
// a set.
func (e *environment) described(t *testing.T, name string) string {
	t.Helper()
	set := e.set(t, name)
	var out strings.Builder
	all := e.variants(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pv := all[name]
		pv.UID, pv.ResourceVersion, pv.CreationTimestamp, pv.ManagedFields, pv.Namespace = "", "", metav1.Time{}, nil, ""
		text, err := yaml.Marshal(pv)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s---\n", text)
	}
	for i := range set.Status.Conditions {
		set.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	text, err := yaml.Marshal(set.Status)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "# status\n%s", text)
	return strings.NewReplacer(string(set.UID), "<uid of the set>", e.namespace, "<namespace>", "  creationTimestamp: null\n", "", "lastTransitionTime: null\n  ", "").Replace(out.String())
}
