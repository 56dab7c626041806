package variants

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/controller/packages/variants"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	wds       = "wds1"
	draft     = porchv1alpha1.LifecycleDraft
	proposed  = porchv1alpha1.LifecycleProposed
	published = porchv1alpha1.LifecyclePublished
	deletion  = porchv1alpha1.LifecycleDeletionProposed
)

// environment is a namespace with Repositories for a test.
type environment struct {
	config *rest.Config
	// controllers is config with the rights that the controllers have, and no more.
	controllers *rest.Config
	client      dynamic.Interface
	namespace   string
	// traffic is that of the controllers.
	traffic *testenv.Traffic
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{config: fleet.Config(t, wds), namespace: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), traffic: &testenv.Traffic{Events: true}}
	e.config.QPS, e.config.Burst = 2000, 4000
	var err error
	if e.client, err = dynamic.NewForConfig(e.config); err != nil {
		t.Fatal(err)
	}
	e.controllers = e.traffic.Count(e.config)
	e.controllers.Impersonate.UserName = "system:serviceaccount:starling-system:binding-controller"
	e.create(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", e.namespace))
	e.create(t, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: catalog}}")
	e.create(t, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: edge}, spec: {deployment: true}}")
	return e
}

// run runs the controller until the test ends, or stop is called.
func (e *environment) run(t *testing.T, injected ...schema.GroupKind) (stop func()) {
	t.Helper()
	watch, err := informers.New(e.controllers)
	if err != nil {
		t.Fatal(err)
	}
	recorder, record, err := client.NewRecorder(e.controllers, "starling-binding-controller", configv1alpha1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := variants.New(variants.Config{WDS: e.controllers, WDSName: wds, Watch: watch, InjectedKinds: injected, Events: recorder})
	if err != nil {
		t.Fatal(err)
	}
	stop = testenv.Run(t, record, watch.Run, testenv.Workers(controller.Run, 4))
	testenv.Ready(t, controller.Ready)
	return stop
}

// resourceOf is the resource of a kind, which the plural tells.
func resourceOf(obj *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := obj.GroupVersionKind()
	plural := strings.ToLower(gvk.Kind) + "s"
	switch gvk.Kind {
	case "Repository":
		plural = "repositories"
	case "ClusterSettings", "PackageRevisionResources":
		plural = strings.ToLower(gvk.Kind)
	}
	return gvk.GroupVersion().WithResource(plural)
}

// of is the interface to the objects of a kind in the test's namespace, if they have one.
func (e *environment) of(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	switch obj.GetKind() {
	case "Namespace", "ClusterSettings", "CustomResourceDefinition", "ClusterRoleBinding", "ClusterRole":
		return e.client.Resource(resourceOf(obj))
	}
	return e.client.Resource(resourceOf(obj)).Namespace(e.namespace)
}

func (e *environment) create(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := testenv.Parse(t, text)
	made, err := e.of(obj).Create(t.Context(), obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("create %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	return made
}

// replace gives an object another spec.
func (e *environment) replace(t *testing.T, text string) {
	t.Helper()
	obj := testenv.Parse(t, text)
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": obj.Object["spec"]}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.of(obj).Patch(t.Context(), obj.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatalf("replace %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
}

func (e *environment) revisions() dynamic.ResourceInterface {
	return e.client.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(e.namespace)
}

func (e *environment) resources() dynamic.ResourceInterface {
	return e.client.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(e.namespace)
}

func (e *environment) variants() dynamic.ResourceInterface {
	return e.client.Resource(configv1alpha1.PackageVariants).Namespace(e.namespace)
}

// list returns the revisions of a package by their names, but placeholders.
func (e *environment) list(t *testing.T, repository, pkg string) map[string]*porchv1alpha1.PackageRevision {
	t.Helper()
	all := testenv.List[porchv1alpha1.PackageRevision](t, e.revisions(),
		metav1.ListOptions{FieldSelector: "spec.repository=" + repository + ",spec.packageName=" + pkg})
	maps.DeleteFunc(all, func(_ string, pr *porchv1alpha1.PackageRevision) bool { return pr.Spec.Revision < 0 })
	return all
}

// only returns the one revision of a package that is at a point of its life.
func (e *environment) only(t *testing.T, repository, pkg string, at porchv1alpha1.PackageRevisionLifecycle) *porchv1alpha1.PackageRevision {
	t.Helper()
	var found *porchv1alpha1.PackageRevision
	for _, pr := range e.list(t, repository, pkg) {
		if pr.Spec.Lifecycle == at {
			if found != nil {
				t.Fatalf("%s and %s are both %s", found.Name, pr.Name, at)
			}
			found = pr
		}
	}
	if found == nil {
		t.Fatalf("no revision of %s/%s is %s", repository, pkg, at)
	}
	return found
}

func (e *environment) files(t *testing.T, name string) map[string]string {
	t.Helper()
	obj, err := e.resources().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Into[porchv1alpha1.PackageRevisionResources](t, obj).Spec.Resources
}

// edit changes files of a draft; an empty text deletes.
func (e *environment) edit(t *testing.T, name string, files map[string]string) {
	t.Helper()
	for range 10 {
		obj, err := e.resources().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all, _, _ := unstructured.NestedStringMap(obj.Object, "spec", "resources")
		maps.Copy(all, files)
		maps.DeleteFunc(all, func(_, text string) bool { return text == "" })
		if err := unstructured.SetNestedStringMap(obj.Object, all, "spec", "resources"); err != nil {
			t.Fatal(err)
		}
		if _, err = e.resources().Update(t.Context(), obj, metav1.UpdateOptions{}); err == nil {
			return
		} else if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
	t.Fatal("always a conflict")
}

// move takes a revision to a point of its life, on the way that leads there.
func (e *environment) move(t *testing.T, name string, to porchv1alpha1.PackageRevisionLifecycle) {
	t.Helper()
	steps := map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
		draft: {proposed}, proposed: {published, draft}, published: {deletion}, deletion: {published},
	}
	for range 20 {
		obj, err := e.revisions().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		at := porchv1alpha1.PackageRevisionLifecycle(obj.Object["spec"].(map[string]any)["lifecycle"].(string))
		if at == to {
			return
		}
		next := steps[at][0]
		if slices.Contains(steps[at], to) {
			next = to
		}
		if err := unstructured.SetNestedField(obj.Object, string(next), "spec", "lifecycle"); err != nil {
			t.Fatal(err)
		}
		if at == proposed {
			_, err = e.revisions().Update(t.Context(), obj, metav1.UpdateOptions{}, "approval")
		} else {
			_, err = e.revisions().Update(t.Context(), obj, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsConflict(err) {
			t.Fatalf("%s from %s to %s: %v", name, at, next, err)
		}
	}
	t.Fatalf("%s does not become %s", name, to)
}

// task makes the text of a task.
func task(kind string, refs ...string) string {
	switch kind {
	case "edit":
		return fmt.Sprintf("{type: edit, edit: {sourceRef: {name: %s}}}", refs[0])
	case "clone":
		return fmt.Sprintf("{type: clone, clone: {upstreamRef: {upstreamRef: {name: %s}}}}", refs[0])
	}
	return "{type: init, init: {description: a package}}"
}

// publish makes a revision of a package and publishes it, with these files beside its Kptfile, or
// instead of it.
func (e *environment) publish(t *testing.T, repository, pkg, workspace string, from string, files map[string]string) string {
	t.Helper()
	name := e.draft(t, repository, pkg, workspace, from, files)
	e.move(t, name, published)
	return name
}

func (e *environment) draft(t *testing.T, repository, pkg, workspace string, from string, files map[string]string) string {
	t.Helper()
	how := task("init")
	if from != "" {
		how = task("edit", from)
	}
	made := e.create(t, fmt.Sprintf("{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, spec: {repository: %s, packageName: %s, workspaceName: %s, tasks: [%s]}}",
		repository, pkg, workspace, how))
	if len(files) > 0 {
		e.edit(t, made.GetName(), files)
	}
	return made.GetName()
}

// variant returns a PackageVariant.
func (e *environment) variant(t *testing.T, name string) *configv1alpha1.PackageVariant {
	t.Helper()
	obj, err := e.variants().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return testenv.Into[configv1alpha1.PackageVariant](t, obj)
}

// condition waits until a condition has a reason, for the spec as it is, and returns its message.
func (e *environment) condition(t *testing.T, name, kind, reason string) string {
	t.Helper()
	return testenv.Condition(t, e.variants(), name, kind, reason)
}

// ready waits until a PackageVariant is ready, follows an upstream, and is in a state.
func (e *environment) ready(t *testing.T, name, upstream string, state configv1alpha1.VariantState) *configv1alpha1.PackageVariant {
	t.Helper()
	var pv *configv1alpha1.PackageVariant
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		pv = e.variant(t, name)
		c := meta.FindStatusCondition(pv.Status.Conditions, configv1alpha1.ConditionReady)
		is := c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == pv.Generation &&
			pv.Status.Upstream != nil && pv.Status.Upstream.Name == upstream && pv.Status.State == state
		return is, fmt.Sprintf("%s: %s", name, asText(t, pv.Status))
	})
	return pv
}

// quiet waits until nothing is written for a while, which is longer than anything that was under
// way takes.
func (e *environment) quiet(t *testing.T) {
	t.Helper()
	testenv.Still(t, 700*time.Millisecond, func() int { return len(e.traffic.Written("")) })
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var digests = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// described is all that there is of a package: its revisions and their files.
func (e *environment) described(t *testing.T, repository, pkg string) string {
	t.Helper()
	var out strings.Builder
	all := e.list(t, repository, pkg)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		pr := all[name]
		var owners []string
		for _, o := range pr.OwnerReferences {
			owners = append(owners, o.Kind+"/"+o.Name)
		}
		text, err := yaml.Marshal(map[string]any{
			"name": pr.Name, "labels": pr.Labels, "annotations": pr.Annotations, "owners": owners, "lifecycle": pr.Spec.Lifecycle,
			"revision": pr.Spec.Revision, "workspaceName": pr.Spec.WorkspaceName, "tasks": pr.Spec.Tasks, "readinessGates": pr.Spec.ReadinessGates,
			"conditions": pr.Status.Conditions, "upstreamLock": pr.Status.UpstreamLock,
		})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "# PackageRevision\n%s", text)
		files := e.files(t, name)
		for _, path := range slices.Sorted(maps.Keys(files)) {
			fmt.Fprintf(&out, "# %s: %s\n%s", name, path, files[path])
			if !strings.HasSuffix(files[path], "\n") {
				out.WriteByte('\n')
			}
		}
	}
	text := strings.ReplaceAll(out.String(), e.namespace, "NAMESPACE")
	return digests.ReplaceAllString(text, "DIGEST")
}

func configMap(name, key, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  %s: %s\n", name, key, value)
}

// variantText returns the text of a PackageVariant.
func variantText(name, upstream, downstream, more string) string {
	if more != "" {
		more = ", " + more
	}
	return fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: PackageVariant, metadata: {name: %s}, spec: {upstream: {repo: catalog, %s}, downstream: {repo: edge, package: %s}%s}}",
		name, upstream, downstream, more)
}

// statusText is the status without what differs from run to run.
func statusText(t *testing.T, pv *configv1alpha1.PackageVariant) string {
	t.Helper()
	status := pv.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	if status.Settled != "" {
		status.Settled = "SETTLED"
	}
	text, err := yaml.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return digests.ReplaceAllString(strings.ReplaceAll(string(text), "- lastTransitionTime: null\n  ", "- "), "DIGEST")
}
