// Package packagebindings tests against real API servers which Repository a cluster has, and which
// Binding a package has. There is no OCM, no package-server and no transport: the tests write what
// they would. The controllers run in the test process.
package packagebindings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/bindings"
	"github.com/starlinghq/starling/pkg/controller/packages/clusterrepositories"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"its1", "wds1"}})
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

type environment struct {
	t        *testing.T
	fleet    *testenv.Fleet
	wds, its dynamic.Interface
	// namespace is that of the Repositories.
	namespace string
	// answer has an ITS that was away answer.
	answer func()
	// writes counts what the API server has taken: a late watch costs refused ones.
	writes atomic.Int64
	// underWay are requests that may be carried out, or be refused, whose answer has not come.
	underWay atomic.Int64
}

var installed sync.Once

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{t: t, fleet: fleet, namespace: testenv.Name(t)}
	wds, its := fleet.Space(t, "wds1"), fleet.Space(t, "its1")
	e.wds, e.its = wds.Client, its.Client
	installed.Do(func() {
		its.Install(t, testenv.ManagedClusterCRD(t))
		wds.Install(t, testenv.APIs(t, "control.kubestellar.io", "config.porch.kpt.dev", "store.starling.io")...)
	})
	e.create(e.wds, namespaces, "Namespace", "", e.namespace, nil)
	return e
}

func (e *environment) create(c dynamic.Interface, resource schema.GroupVersionResource, kind, namespace, name string, fields map[string]any) {
	e.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(o.Object, fields)
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	if _, err := c.Resource(resource).Namespace(namespace).Create(e.t.Context(), o, metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *environment) patch(c dynamic.Interface, resource schema.GroupVersionResource, namespace, name, patch string) {
	e.t.Helper()
	if _, err := c.Resource(resource).Namespace(namespace).Patch(e.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *environment) delete(c dynamic.Interface, resource schema.GroupVersionResource, namespace, name string) {
	e.t.Helper()
	if err := c.Resource(resource).Namespace(namespace).Delete(e.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
}

func (e *environment) cluster(name, site string) {
	e.t.Helper()
	e.create(e.its, clusters.ManagedClusters, "ManagedCluster", "", name, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"site": site}}, "spec": map[string]any{"hubAcceptsClient": true},
	})
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), testenv.Patience)
		defer cancel()
		_, _ = e.its.Resource(clusters.ManagedClusters).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = e.its.Resource(clusters.ManagedClusters).Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func (e *environment) revision(repository string, number int, lifecycle string) {
	e.t.Helper()
	e.create(e.wds, storev1alpha1.PackageRevisions, "PackageRevision", e.namespace, fmt.Sprintf("%s.web.w%d", repository, number), map[string]any{
		"spec": map[string]any{
			"packageName": "web", "repository": repository, "workspaceName": fmt.Sprintf("w%d", number), "lifecycle": lifecycle, "revision": int64(number),
		},
		"content": map[string]any{"digest": "sha256:" + strings.Repeat(fmt.Sprint(number), 64), "files": int64(1)},
	})
}

func get[T any](e *environment, resource schema.GroupVersionResource, namespace, name string) *T {
	e.t.Helper()
	return testenv.Get[T](e.t, e.wds.Resource(resource).Namespace(namespace), name)
}

// repository describes the Repository of a cluster: "edge ours Detached=False".
func (e *environment) repository(name string) string {
	e.t.Helper()
	r := get[configv1alpha1.Repository](e, configv1alpha1.Repositories, e.namespace, name)
	if r == nil {
		return "none"
	}
	text := r.Labels["site"]
	if r.Annotations[configv1alpha1.ClusterAnnotation] == name {
		text += " ours"
	}
	for _, kind := range []string{configv1alpha1.RepositoryConditionDetached, configv1alpha1.RepositoryConditionDeployed} {
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
			text += " " + c.Type + "=" + string(c.Status)
		}
	}
	return text
}

// binding describes the Binding of the package in a Repository: "w1 to edge1".
func (e *environment) binding(repository string) string {
	e.t.Helper()
	b := e.storedBinding(repository)
	if b == nil {
		return "none"
	}
	text := strings.TrimPrefix(b.Spec.Workload.Packages[0].Name, repository+".web.")
	for _, d := range b.Spec.Destinations {
		text += " to " + d.ClusterID
	}
	return text
}

// storedBinding returns the Binding of the package in a Repository. One that is deleted goes, as
// the transport would have it.
func (e *environment) storedBinding(repository string) *controlv1alpha1.Binding {
	e.t.Helper()
	name := binding.Name(binding.Package{Namespace: e.namespace, Repository: repository, Name: "web"})
	b := get[controlv1alpha1.Binding](e, controlv1alpha1.Bindings, "", name)
	if b != nil && b.DeletionTimestamp != nil {
		_, _ = e.wds.Resource(controlv1alpha1.Bindings).Patch(e.t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return nil
	}
	return b
}

func (e *environment) expect(what func(string) string, of, want string) {
	e.t.Helper()
	testenv.Eventually(e.t, testenv.Patience, func() (bool, string) {
		got := what(of)
		return got == want, fmt.Sprintf("%s: %q, want %q", of, got, want)
	})
}

// start runs the controllers until the test ends, or until stop. If away is true, the ITS does not
// answer until e.answer is called.
func (e *environment) start(away bool) (stop func()) {
	e.t.Helper()
	must := func(err error) {
		e.t.Helper()
		if err != nil {
			e.t.Fatal(err)
		}
	}
	config := e.fleet.Config(e.t, "wds1")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodGet {
				return next.RoundTrip(q)
			}
			e.underWay.Add(1)
			defer e.underWay.Add(-1)
			answer, err := next.RoundTrip(q)
			if err == nil && answer.StatusCode < http.StatusMultipleChoices {
				e.writes.Add(1)
			}
			return answer, err
		})
	})
	watch, err := informers.New(config)
	must(err)
	packageBindings, err := informers.NewBindings(config)
	must(err)
	writer, err := writer.New(config, "wds1", "test")
	must(err)
	reader, err := informers.NewReader(config)
	must(err)
	recorder, record, err := client.NewRecorder(e.fleet.Config(e.t, "wds1"), "test", controlv1alpha1.AddToScheme)
	must(err)
	itsConfig, back := e.fleet.Config(e.t, "its1"), make(chan struct{})
	e.answer = sync.OnceFunc(func() { close(back) })
	found := clusters.New(clusters.ITS{Name: "its1", Connect: func(ctx context.Context) (clusters.Source, error) {
		if away {
			select {
			case <-ctx.Done():
				return clusters.Source{}, ctx.Err()
			case <-back:
			}
		}
		return clusters.NewSource(rest.CopyConfig(itsConfig))
	}})
	repositories, err := clusterrepositories.New(clusterrepositories.Config{
		Watch: watch, Inventory: found, Namespaces: []string{e.namespace}, Writer: writer, Empty: reader.Empty, Clock: clock.RealClock{},
	})
	must(err)
	deployed, err := bindings.New(bindings.Config{
		Watch: watch, Bindings: packageBindings, Inventory: found, Namespaces: []string{e.namespace}, Writer: writer, Reader: reader, Events: recorder,
		Clock: clock.RealClock{},
	})
	must(err)
	stop = testenv.Run(e.t, record, watch.Run, func(ctx context.Context) error { packageBindings.Informer.RunWithContext(ctx); return nil }, found.Run,
		testenv.Workers(repositories.Run, 2), testenv.Workers(deployed.Run, 2))
	testenv.Eventually(e.t, testenv.Patience, func() (bool, string) {
		err := errors.Join(repositories.Ready(), deployed.Ready())
		synced := watch.Repositories.HasSynced() && watch.Revisions.HasSynced() && packageBindings.HasSynced()
		return err == nil || away && synced, fmt.Sprint(err)
	})
	return stop
}

// written returns how much was written. What is seen in the API server may not be answered yet.
func (e *environment) written() int64 {
	e.t.Helper()
	testenv.Eventually(e.t, testenv.Patience, func() (bool, string) { return e.underWay.Load() == 0, "a write is under way" })
	return e.writes.Load()
}

// quiet expects that nothing is written for a while.
func (e *environment) quiet() {
	e.t.Helper()
	before := e.written()
	testenv.Never(e.t, time.Second, func() string {
		if n := e.writes.Load() - before; n > 0 {
			return fmt.Sprintf("%d writes", n)
		}
		return ""
	})
}

// TestLife follows a cluster and a package from the day that the cluster joins until both are gone,
// with restarts between.
func TestLife(t *testing.T) {
	e := newEnvironment(t)
	stop := e.start(false)
	one, other := e.namespace+"-1", e.namespace+"-2"
	e.create(e.wds, configv1alpha1.Repositories, "Repository", e.namespace, other, map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"site": "mine"}}, "spec": map[string]any{"deployment": true},
	})
	restart := func(away bool) {
		t.Helper()
		stop()
		stop = e.start(away)
		e.quiet()
	}

	e.cluster(one, "edge")
	e.expect(e.repository, one, "edge ours")
	e.cluster(other, "core")
	e.expect(e.repository, other, "mine Detached=False") // a user's stays theirs
	e.patch(e.its, clusters.ManagedClusters, "", one, `{"metadata":{"labels":{"site":"far"}}}`)
	e.expect(e.repository, one, "far ours")
	restart(false)

	before := e.written()
	e.revision(one, 1, "Published")
	e.expect(e.binding, one, "w1 to "+one)
	if n := e.written() - before; n != 1 {
		t.Errorf("a published package cost %d writes, want 1", n)
	}
	uid := e.storedBinding(one).UID
	e.revision(one, 3, "Draft")
	e.revision(one, 4, "Proposed")
	e.quiet()
	e.expect(e.binding, one, "w1 to "+one) // what is not approved does not travel
	before = e.written()
	e.revision(one, 2, "Published")
	e.expect(e.binding, one, "w2 to "+one)
	if b := e.storedBinding(one); b.UID != uid || e.written()-before != 1 {
		t.Errorf("a new revision cost %d writes, and the Binding %s became %s", e.written()-before, uid, b.UID)
	}
	e.patch(e.wds, storev1alpha1.PackageRevisions, e.namespace, one+".web.w2", `{"spec":{"lifecycle":"DeletionProposed"}}`)
	e.revision(other, 1, "Published")
	e.expect(e.binding, other, "w1 to "+other) // a user's Repository is used
	restart(false)
	e.expect(e.binding, one, "w2 to "+one)

	// The cluster leaves: its hub waits for what is delivered, and then it is gone. Nothing
	// approved is lost.
	e.patch(e.its, clusters.ManagedClusters, "", one, `{"metadata":{"finalizers":["test/wait"]}}`)
	e.delete(e.its, clusters.ManagedClusters, "", one)
	e.expect(e.binding, one, "w2")
	e.expect(e.repository, one, "far ours Detached=True")
	e.patch(e.its, clusters.ManagedClusters, "", one, `{"metadata":{"finalizers":null}}`)
	// The other one is gone at once, as when somebody removes it by force. What it has stays.
	e.delete(e.its, clusters.ManagedClusters, "", other)
	e.expect(e.repository, other, "mine Detached=True")
	e.quiet()
	e.expect(e.binding, other, "w1 to "+other)
	restart(false)
	restart(true)

	// While the ITS does not answer, the clusters are not known. Packages are known.
	e.revision(other, 2, "Published")
	e.expect(e.binding, other, "w2 to "+other)
	e.quiet()
	e.expect(e.repository, one, "far ours Detached=True")

	stop()
	e.cluster(one, "near")
	stop = e.start(false)
	e.expect(e.repository, one, "near ours Detached=False")
	e.expect(e.binding, one, "w2 to "+one)
	restart(true)

	stop()
	stop = e.start(false)
	e.delete(e.wds, storev1alpha1.PackageRevisions, e.namespace, one+".web.w2")
	e.expect(e.binding, one, "w1 to "+one)
	e.delete(e.wds, storev1alpha1.PackageRevisions, e.namespace, one+".web.w1")
	e.expect(e.binding, one, "none")
	e.delete(e.its, clusters.ManagedClusters, "", one)
	e.expect(e.repository, one, "near ours Detached=True") // it holds drafts
	e.quiet()
	for _, draft := range []string{".web.w3", ".web.w4"} {
		e.delete(e.wds, storev1alpha1.PackageRevisions, e.namespace, one+draft)
	}
	e.expect(e.repository, one, "none")
	restart(false)
}

// TestChangesByUsersAreCorrected: what somebody did to what is ours is put right, and what somebody
// else has is left alone.
func TestChangesByUsersAreCorrected(t *testing.T) {
	e := newEnvironment(t)
	e.start(false)
	name := e.namespace + "-1"
	e.cluster(name, "edge")
	e.expect(e.repository, name, "edge ours")
	e.revision(name, 1, "Published")
	e.expect(e.binding, name, "w1 to "+name)

	e.patch(e.wds, configv1alpha1.Repositories, e.namespace, name, `{"metadata":{"labels":{"site":"wrong"}}}`)
	e.expect(e.repository, name, "edge ours")
	b := e.storedBinding(name)
	e.patch(e.wds, controlv1alpha1.Bindings, "", b.Name, `{"spec":{"destinations":[]}}`)
	e.expect(e.binding, name, "w1 to "+name)
	e.patch(e.wds, controlv1alpha1.Bindings, "", b.Name, `{"metadata":{"annotations":{"starling.io/hold":"*"}}}`)
	e.delete(e.wds, configv1alpha1.Repositories, e.namespace, name)
	e.expect(e.repository, name, "edge ours") // re-created, and nothing was removed in between
	if after := e.storedBinding(name); after.UID != b.UID || after.Annotations["starling.io/hold"] != "*" {
		t.Errorf("the Binding was %v, is %v", b.ObjectMeta, after.ObjectMeta)
	}
	e.delete(e.wds, controlv1alpha1.Bindings, "", b.Name)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		after := e.storedBinding(name)
		return after != nil && after.UID != b.UID, "the Binding is not re-created"
	})
	// Nobody who may write elsewhere reaches a cluster.
	elsewhere := e.namespace + "-elsewhere"
	e.create(e.wds, namespaces, "Namespace", "", elsewhere, nil)
	mine := e.namespace
	e.namespace = elsewhere
	e.create(e.wds, configv1alpha1.Repositories, "Repository", elsewhere, name, map[string]any{"spec": map[string]any{"deployment": true}})
	e.revision(name, 1, "Published")
	e.quiet()
	e.expect(e.binding, name, "none")
	e.namespace = mine
}

// TestRepositoryOfUserNamedLikeACluster: a Repository that has the name of a cluster, but does not
// deploy to it, has a condition that says so, as long as this is the case.
func TestRepositoryOfUserNamedLikeACluster(t *testing.T) {
	e := newEnvironment(t)
	name, other := e.namespace+"-1", e.namespace+"-2"
	for _, r := range []string{name, other} {
		e.create(e.wds, configv1alpha1.Repositories, "Repository", e.namespace, r, map[string]any{"metadata": map[string]any{"labels": map[string]any{"site": "mine"}}})
	}
	e.revision(name, 1, "Published")
	e.start(false)
	e.cluster(name, "edge")
	e.expect(e.repository, name, "mine Deployed=False")
	r := get[configv1alpha1.Repository](e, configv1alpha1.Repositories, e.namespace, name)
	c := meta.FindStatusCondition(r.Status.Conditions, configv1alpha1.RepositoryConditionDeployed)
	if c.Reason != configv1alpha1.ReasonNoDeployment || !strings.Contains(c.Message, "spec.deployment of the Repository of its name is not true") {
		t.Errorf("it says %+v", c)
	}
	e.quiet()
	e.expect(e.repository, other, "mine") // there is no such cluster
	e.expect(e.binding, name, "none")
	e.patch(e.wds, configv1alpha1.Repositories, e.namespace, name, `{"spec":{"deployment":true}}`)
	e.expect(e.repository, name, "mine Detached=False")
	e.expect(e.binding, name, "w1 to "+name)
	e.patch(e.wds, configv1alpha1.Repositories, e.namespace, name, `{"spec":{"deployment":false}}`)
	e.expect(e.repository, name, "mine Detached=False Deployed=False")
	e.expect(e.binding, name, "none")
	e.delete(e.its, clusters.ManagedClusters, "", name)
	e.expect(e.repository, name, "mine Detached=True")
}

// TestLabelsOfAddOnsAreNotCopied: what OCM says of add-ons by labels costs no writes, and no
// Repository has it.
func TestLabelsOfAddOnsAreNotCopied(t *testing.T) {
	e := newEnvironment(t)
	e.start(false)
	name := e.namespace + "-1"
	e.cluster(name, "edge")
	e.expect(e.repository, name, "edge ours")
	e.quiet()
	before := e.written()
	for i := range 20 {
		e.patch(e.its, clusters.ManagedClusters, "", name, fmt.Sprintf(`{"metadata":{"labels":{"feature.open-cluster-management.io/addon-status-agent":%q}}}`,
			[]string{"available", "unhealthy", "unreachable"}[i%3]))
	}
	e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"labels":{"site":"far"}}}`)
	e.expect(e.repository, name, "far ours")
	e.quiet()
	if n := e.written() - before; n != 1 {
		t.Errorf("%d writes, want 1, for the label that a user changed", n)
	}
	if r := get[configv1alpha1.Repository](e, configv1alpha1.Repositories, e.namespace, name); len(r.Labels) != 1 {
		t.Errorf("its labels are %v", r.Labels)
	}
}

// TestNameOfBindingTaken: a Binding of another owner that has the name of a package's Binding is
// not changed, and an event reports it. A Binding of ours whose labels were removed is still ours,
// although it is not watched any more.
func TestNameOfBindingTaken(t *testing.T) {
	e := newEnvironment(t)
	e.start(false)
	name, other := e.namespace+"-1", e.namespace+"-2"
	e.cluster(name, "edge")
	e.expect(e.repository, name, "edge ours")
	e.revision(name, 1, "Published")
	e.expect(e.binding, name, "w1 to "+name)
	b := e.storedBinding(name)
	e.patch(e.wds, controlv1alpha1.Bindings, "", b.Name, fmt.Sprintf(`{"metadata":{"labels":{%q:null,%q:null}}}`,
		controlv1alpha1.LabelPackageNamespace, controlv1alpha1.LabelPackageRepository))
	e.revision(name, 2, "Published")
	e.expect(e.binding, name, "w2 to "+name)
	if after := e.storedBinding(name); after.UID != b.UID || len(after.Labels) != 2 {
		t.Errorf("the Binding was %v, is %v", b.ObjectMeta, after.ObjectMeta)
	}

	e.cluster(other, "core")
	e.expect(e.repository, other, "core ours")
	bindingName := binding.Name(binding.Package{Namespace: e.namespace, Repository: other, Name: "web"})
	e.create(e.wds, controlv1alpha1.Bindings, "Binding", "", bindingName, map[string]any{"spec": map[string]any{}})
	foreign := get[controlv1alpha1.Binding](e, controlv1alpha1.Bindings, "", bindingName)
	e.revision(other, 1, "Published")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		list, err := e.wds.Resource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range list.Items {
			if of, _, _ := unstructured.NestedString(event.Object, "regarding", "name"); of == bindingName && event.Object["reason"] == controlv1alpha1.ReasonNameTaken {
				return true, ""
			}
		}
		return false, "no event reports it"
	})
	if after := get[controlv1alpha1.Binding](e, controlv1alpha1.Bindings, "", bindingName); after.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the Binding of another was changed: %v", after)
	}
	e.delete(e.wds, controlv1alpha1.Bindings, "", bindingName)
	testenv.Eventually(t, 2*testenv.Patience, func() (bool, string) { // it is looked at again after a minute at the latest
		b := e.storedBinding(other)
		return b != nil && len(b.Spec.Workload.Packages) == 1, "the package has no Binding"
	})
}

// TestClusterLeavesWithoutRepository: the hub of a cluster that leaves waits until nothing is
// delivered there; a Repository that somebody deleted does not come back for it.
func TestClusterLeavesWithoutRepository(t *testing.T) {
	e := newEnvironment(t)
	stop := e.start(false)
	name := e.namespace + "-1"
	e.cluster(name, "edge")
	e.expect(e.repository, name, "edge ours")
	e.revision(name, 1, "Published")
	e.expect(e.binding, name, "w1 to "+name)
	stop()
	e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"finalizers":["test/wait"]}}`)
	e.delete(e.its, clusters.ManagedClusters, "", name)
	e.delete(e.wds, configv1alpha1.Repositories, e.namespace, name)
	e.start(true)
	e.quiet()
	e.expect(e.binding, name, "w1 to "+name)
	e.answer()
	e.expect(e.binding, name, "w1")
	e.quiet()
	e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"finalizers":null}}`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := e.its.Resource(clusters.ManagedClusters).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), "the cluster is there"
	})
	e.cluster(name, "near")
	e.expect(e.repository, name, "near ours")
	e.expect(e.binding, name, "w1 to "+name)
}

// TestDrainedCluster: packages leave a cluster that is drained, and its Repository says so and
// stays with them. They come back when it is undrained, and nothing changes while the ITS does not
// respond.
func TestDrainedCluster(t *testing.T) {
	e := newEnvironment(t)
	stop := e.start(false)
	name := e.namespace + "-1"
	e.cluster(name, "edge")
	e.revision(name, 1, "Published")
	e.expect(e.binding, name, "w1 to "+name)
	e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"labels":{"starling.io/drained":"true"}}}`)
	e.expect(e.binding, name, "w1")
	e.expect(e.repository, name, "edge ours Deployed=False")
	e.revision(name, 2, "Published")
	e.expect(e.binding, name, "w2")
	stop()
	e.patch(e.its, clusters.ManagedClusters, "", name, `{"metadata":{"labels":{"starling.io/drained":null}}}`)
	e.start(true)
	e.quiet()
	e.expect(e.binding, name, "w2")
	e.answer()
	e.expect(e.binding, name, "w2 to "+name)
	e.expect(e.repository, name, "edge ours")
}
