package fanout

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{its, wds}, Packages: true})
}

const (
	its      = "its1"
	wds      = "wds1"
	patience = testenv.Patience
)

// The resources of the world.
var ( //nolint:gochecknoglobals // constants
	namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	revisions  = porchv1alpha1.GroupVersion.WithResource("packagerevisions")
	resources  = porchv1alpha1.GroupVersion.WithResource("packagerevisionresources")
)

// world is a namespace of a WDS, with an administrator, and a
// binding-controller that can be killed. Clusters are those of an ITS without OCM; they have
// Repositories in that namespace.
type world struct {
	t             *testing.T
	fleet         *testenv.Fleet
	client        dynamic.Interface
	hub           dynamic.Interface
	namespace     string
	kubeconfig    string
	itsKubeconfig string
	controller    *process
}

func newWorld(t *testing.T) *world {
	t.Helper()
	fleet := testenv.Shared(t)
	config := fleet.Config(t, wds)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := dynamic.NewForConfig(fleet.Config(t, its))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := &world{
		t: t, fleet: fleet, client: client, hub: hub, namespace: strings.ToLower(t.Name()), kubeconfig: filepath.Join(dir, "wds"), itsKubeconfig: filepath.Join(dir, "its"),
	}
	fleet.Space(t, its).Install(t, testenv.ManagedClusterCRD(t)) // as OCM would
	// The controller has the rights that it has in production.
	file, err := clientcmd.LoadFromFile(fleet.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	file.CurrentContext = its
	if err := clientcmd.WriteToFile(*file, w.itsKubeconfig); err != nil {
		t.Fatal(err)
	}
	file.CurrentContext = wds
	user := file.AuthInfos[file.Contexts[wds].AuthInfo]
	user.Impersonate = "system:serviceaccount:starling-system:binding-controller"
	user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:starling-system", "system:authenticated"}
	if err := clientcmd.WriteToFile(*file, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	w.apply(namespaces, "", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", w.namespace))
	return w
}

// join has a cluster join, or have other labels.
func (w *world) join(name string, labels map[string]string) {
	w.t.Helper()
	obj := testenv.Parse(w.t, fmt.Sprintf("{apiVersion: %s, kind: ManagedCluster, metadata: {name: %s, labels: {sites: %q, tier: %q}}, spec: {hubAcceptsClient: true}}",
		clusters.ManagedClusters.GroupVersion(), name, labels["sites"], labels["tier"]))
	if _, err := w.hub.Resource(clusters.ManagedClusters).Apply(w.t.Context(), name, obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		w.t.Fatal(err)
	}
}

// process is a binding-controller that runs the controllers of packages.
type process struct {
	cmd   *exec.Cmd
	log   string // a file
	ended chan struct{}
}

// start starts a binding-controller, and waits until it leads.
func (w *world) start(env ...string) {
	w.t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		w.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(w.t.TempDir(), "log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	p := &process{log: log.Name(), ended: make(chan struct{})}
	p.cmd = exec.Command(filepath.Join(filepath.Dir(binary), "binding-controller"), "--wds-kubeconfig="+w.kubeconfig,
		"--controllers=packages", "--leader-elect=false", "--its="+its+"="+w.itsKubeconfig, "--cluster-repository-namespaces="+w.namespace)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	w.controller = p
	w.t.Cleanup(func() {
		p.kill()
		if log := p.read(w.t); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic:") {
			w.t.Errorf("a controller has a race, or panicked:\n%s", log)
		}
	})
}

func (p *process) read(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// isRunning fails the test if the controller has ended by itself.
func (p *process) isRunning(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
		t.Fatalf("the controller ended:\n%s", p.read(t))
	default:
	}
}

// kill ends the controller without any cleanup.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (w *world) of(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	return w.client.Resource(resource).Namespace(w.namespace)
}

// apply applies an object that is given as YAML.
func (w *world) apply(resource schema.GroupVersionResource, namespace, text string) {
	w.t.Helper()
	obj := testenv.Parse(w.t, text)
	var client dynamic.ResourceInterface = w.client.Resource(resource)
	if namespace != "" {
		client = w.client.Resource(resource).Namespace(namespace)
	}
	if _, err := client.Apply(w.t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		w.t.Fatalf("apply %s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
}

// all lists the objects of a resource in the namespace.
func (w *world) all(resource schema.GroupVersionResource) []unstructured.Unstructured {
	w.t.Helper()
	list, err := w.of(resource).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatalf("list %s: %v", resource.Resource, err)
	}
	return list.Items
}

// revision has the relevant fields of a PackageRevision.
type revision struct {
	name, repository, pkg, lifecycle string
	number                           int64
	ready                            bool
	object                           *unstructured.Unstructured
}

// downstream lists the revisions of all packages but the upstream.
func (w *world) downstream() []revision {
	w.t.Helper()
	var all []revision
	for _, obj := range w.all(revisions) {
		if r := asRevision(&obj); r.repository != upstreamRepository {
			all = append(all, r)
		}
	}
	return all
}

func asRevision(obj *unstructured.Unstructured) revision {
	spec, _ := obj.Object["spec"].(map[string]any)
	text := func(key string) string { s, _ := spec[key].(string); return s }
	r := revision{name: obj.GetName(), repository: text("repository"), pkg: text("packageName"), lifecycle: text("lifecycle"), ready: true, object: obj}
	r.number, _ = spec["revision"].(int64)
	met := map[string]bool{}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		kind, _ := c["type"].(string)
		met[kind] = c["status"] == "True"
	}
	gates, _, _ := unstructured.NestedSlice(obj.Object, "spec", "readinessGates")
	for _, g := range gates {
		g, _ := g.(map[string]any)
		kind, _ := g["conditionType"].(string)
		r.ready = r.ready && met[kind]
	}
	return r
}

// files reads the files of a revision.
func (w *world) files(name string) (*unstructured.Unstructured, map[string]string, error) {
	obj, err := w.of(resources).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	files, _, err := unstructured.NestedStringMap(obj.Object, "spec", "resources")
	return obj, files, err
}

// write writes files of a draft.
func (w *world) write(obj *unstructured.Unstructured, files map[string]string) error {
	if err := unstructured.SetNestedStringMap(obj.Object, files, "spec", "resources"); err != nil {
		return err
	}
	_, err := w.of(resources).Update(w.t.Context(), obj, metav1.UpdateOptions{})
	return err
}

// move changes the lifecycle of a revision.
func (w *world) move(r *revision, to string) error {
	obj := r.object.DeepCopy()
	if err := unstructured.SetNestedField(obj.Object, to, "spec", "lifecycle"); err != nil {
		return err
	}
	var subresource []string
	if r.lifecycle == proposed {
		subresource = []string{"approval"}
	}
	_, err := w.of(revisions).Update(w.t.Context(), obj, metav1.UpdateOptions{}, subresource...)
	return err
}

// isExpected reports whether an error is to be expected when several clients write concurrently.
func isExpected(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
}

// publish creates and publishes a revision of the upstream package.
func (w *world) publish(number int) {
	w.t.Helper()
	ctx := w.t.Context()
	task := map[string]any{"type": "init", "init": map[string]any{}}
	if number > 1 {
		task = map[string]any{"type": "edit", "edit": map[string]any{"sourceRef": map[string]any{"name": upstreamName(number - 1)}}}
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": revisions.GroupVersion().String(), "kind": "PackageRevision", "metadata": map[string]any{"namespace": w.namespace},
		"spec": map[string]any{
			"repository": upstreamRepository, "packageName": "web", "workspaceName": fmt.Sprint("w", number), "tasks": []any{task},
		},
	}}
	if _, err := w.of(revisions).Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	at, files, err := w.files(upstreamName(number))
	if err != nil {
		w.t.Fatal(err)
	}
	files["upstream.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: upstream\ndata:\n  number: \"%d\"\n", number)
	files["injected.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: injected\n  annotations:\n    kpt.dev/config-injection: optional\n"
	if err := w.write(at, files); err != nil {
		w.t.Fatal(err)
	}
	for _, to := range []string{proposed, published} {
		obj, err := w.of(revisions).Get(ctx, upstreamName(number), metav1.GetOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
		r := asRevision(obj)
		if err := w.move(&r, to); err != nil {
			w.t.Fatal(err)
		}
	}
}

const upstreamRepository = "upstream"

func upstreamName(number int) string { return fmt.Sprintf("%s.web.w%d", upstreamRepository, number) }

const (
	draft            = "Draft"
	proposed         = "Proposed"
	published        = "Published"
	deletionProposed = "DeletionProposed"
)

// watch shows each change of the objects of a resource from now on, until the test ends.
func (w *world) watch(objects dynamic.ResourceInterface, show func(obj *unstructured.Unstructured, deleted bool)) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	watcher, err := objects.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if obj, is := event.Object.(*unstructured.Unstructured); is {
				show(obj, event.Type == watch.Deleted)
			}
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}
