// Package variantsets tests against a real API server how PackageVariantSets become
// PackageVariants. No controller reconciles these: the tests write what it would write. The
// controller of the sets runs in the test process, or in a process of its own where the test kills
// it.
package variantsets

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/variantsets"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}, Parallel: 6}) }

var (
	sets         = configv1alpha2.PackageVariantSets
	variants     = configv1alpha1.PackageVariants
	repositories = configv1alpha1.Repositories
	revisions    = storev1alpha1.PackageRevisions
	crds         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// environment is a space with our APIs, and a namespace of the test's own in it. It is a WDS and,
// for ManagedClusters, an ITS.
type environment struct {
	*testenv.Space
	config *rest.Config
	// controllers is config with the rights that the controllers have, and no more. They see only
	// the packages of the namespace.
	controllers *rest.Config
	client      dynamic.Interface
	namespace   string
}

var installed sync.Once

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	space := testenv.Shared(t).Space(t, "wds1")
	e := &environment{
		Space: space, config: space.Config, client: space.Client,
	}
	installed.Do(func() {
		space.Install(t, append(testenv.APIs(t, "config.porch.kpt.dev_", "store.starling.io_", "control.kubestellar.io_"), testenv.ManagedClusterCRD(t))...)
		space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: starling-system}}")
		space.Install(t, "../../../config/rbac/wds/binding-controller.yaml", "../../../config/rbac/wds/validatingadmissionpolicy.yaml", "../../../config/rbac/wds/approval-policy.yaml")
	})
	e.namespace = e.create(t, namespaces, "", "{metadata: {generateName: test-}}").GetName()
	e.controllers = testenv.InNamespace(space.AsServiceAccount("starling-system", "binding-controller"), e.namespace,
		"repositories", "packagerevisions", "packagevariants", "packagevariantsets")
	t.Cleanup(func() { e.clear(t) })
	return e
}

// clear deletes what the controllers of other processes would reconcile in later tests.
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
	e.removeFinalizers(ctx, t)
}

// removeFinalizers removes the finalizers of PackageVariants that are being deleted, as their
// controller does.
func (e *environment) removeFinalizers(ctx context.Context, t *testing.T) {
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

var kinds = map[string]string{
	"packagevariantsets": "PackageVariantSet", "packagevariants": "PackageVariant", "repositories": "Repository", "packagerevisions": "PackageRevision",
	"namespaces": "Namespace", "managedclusters": "ManagedCluster", "teams": "Team",
}

// resource is where objects of the environment are.
func (e *environment) resource(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == namespaces || resource == crds || resource == clusters.ManagedClusters {
		return e.client.Resource(resource)
	}
	return e.client.Resource(resource).Namespace(e.namespace)
}

// create creates an object that is given as YAML, with its status.
func (e *environment) create(t *testing.T, resource schema.GroupVersionResource, name, text string) *unstructured.Unstructured {
	t.Helper()
	obj := testenv.Parse(t, text)
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

func (e *environment) variants(t *testing.T) map[string]*configv1alpha1.PackageVariant {
	t.Helper()
	return testenv.List[configv1alpha1.PackageVariant](t, e.resource(variants), metav1.ListOptions{})
}

func (e *environment) set(t *testing.T, name string) *configv1alpha2.PackageVariantSet {
	t.Helper()
	set := testenv.Get[configv1alpha2.PackageVariantSet](t, e.resource(sets), name)
	if set == nil {
		t.Fatalf("PackageVariantSet %s does not exist", name)
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

// waitForCondition waits until a condition of a set has a reason at its generation, and returns its
// message.
func (e *environment) waitForCondition(t *testing.T, set, kind, reason string) string {
	t.Helper()
	return testenv.Condition(t, e.resource(sets), set, kind, reason)
}

// waitForVariants waits until the namespace has exactly these PackageVariants, not counting those
// that are being deleted.
func (e *environment) waitForVariants(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got := slices.Sorted(maps.Keys(e.notDeleted(t)))
		return slices.Equal(got, names), fmt.Sprintf("there are %v, want %v", got, names)
	})
}

func (e *environment) notDeleted(t *testing.T) map[string]*configv1alpha1.PackageVariant {
	t.Helper()
	all := e.variants(t)
	maps.DeleteFunc(all, func(_ string, pv *configv1alpha1.PackageVariant) bool { return pv.DeletionTimestamp != nil })
	return all
}

// options say how the controller is run.
type options struct {
	// its is the ITS; nil is that of the environment.
	its []clusters.ITS
	// allowed are kinds without namespaces.
	allowed []schema.GroupKind
}

// running is a controller that runs.
type running struct {
	// stop ends it.
	stop func()
	// writes counts what the API server has taken: a request that is refused, since it was made of
	// an older state, changes nothing.
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
	watch, err := informers.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if o.its == nil {
		o.its = []clusters.ITS{{Name: "its1", Connect: func(context.Context) (clusters.Source, error) { return clusters.NewSource(e.config) }}}
	}
	found := clusters.New(o.its...)
	controller, err := variantsets.New(variantsets.Config{
		WDS: config, WDSName: "wds1", Watch: watch, Clusters: found, TargetKinds: o.allowed,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.stop = testenv.Run(t, watch.Run, found.Run, testenv.Workers(controller.Run, 2))
	testenv.Ready(t, controller.Ready)
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
	// Longer than anything is held back: a set whose planning took long, be it that others had the
	// processor, is planned again after two seconds.
	const while = 2300 * time.Millisecond
	last, since := r.asked.Load(), time.Now()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		if now := r.asked.Load(); now != last || now != r.answered.Load() {
			last, since = now, time.Now()
		}
		return time.Since(since) > while, "it is writing"
	})
	return r.writes.Load()
}

// describe returns the status of a set and every PackageVariant of the namespace, as the API server
// stores them, without what differs between two runs.
func (e *environment) describe(t *testing.T, name string) string {
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
