// Package binding tests against real API servers how policies become Bindings. There is no transport: the tests write what
// it would. The controller runs in the test process.
package binding

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

// patience is far more than anything takes that is waited for, on any machine.
const patience = 2 * time.Minute

var (
	policies    = controlv1alpha1.BindingPolicies
	bindings    = controlv1alpha1.Bindings
	managed     = binding.ManagedClusters
	crds        = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	clusterRole = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
)

// environment is what a test works with: both spaces as a user sees them.
type environment struct {
	t        *testing.T
	fleet    *testenv.Fleet
	wds, its dynamic.Interface
	// name is the test's own: of its namespace, of labels, and the prefix of its policies and clusters.
	name string
	// maxBindingSize is how large the controllers that are started make Bindings.
	maxBindingSize int
}

var (
	installed sync.Once
	// environments counts them, so that a test that runs again finds nothing of its former self.
	environments atomic.Int32
)

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{t: t, fleet: fleet, name: fmt.Sprintf("%s-%d", strings.ToLower(t.Name()), environments.Add(1)), maxBindingSize: corebinding.DefaultMaxSize}
	client := func(space string) dynamic.Interface {
		c, err := dynamic.NewForConfig(fleet.Config(t, space))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	e.wds, e.its = client("wds1"), client("its1")
	installed.Do(func() {
		e.install("wds1", e.wds, "../../../config/crd/control.kubestellar.io_bindingpolicies.yaml", policies)
		e.install("wds1", e.wds, "../../../config/crd/control.kubestellar.io_bindings.yaml", bindings)
		e.install("its1", e.its, testenv.ManagedClusterCRD(t), managed)
		for _, space := range []string{"wds", "its"} {
			fleet.Kubectl(t, space+"1", "create", "namespace", "starling-system")
			fleet.Kubectl(t, space+"1", "apply", "-f", "../../../config/rbac/"+space)
		}
	})
	e.create(namespaces, object("", e.name, nil))
	return e
}

// install installs the CRD of the file and waits until its resource is served.
func (e *environment) install(space string, client dynamic.Interface, file string, resource schema.GroupVersionResource) {
	e.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		e.t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		e.t.Fatal(err)
	}
	if _, err := client.Resource(crds).Create(e.t.Context(), crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatal(err)
	}
	e.served(space, resource)
}

func (e *environment) served(space string, resource schema.GroupVersionResource) {
	e.t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(e.fleet.Config(e.t, space))
	if err != nil {
		e.t.Fatal(err)
	}
	testenv.Eventually(e.t, patience, func() (bool, string) {
		missing, err := clusters.Missing(client, resource)
		return err == nil && len(missing) == 0, fmt.Sprint(missing, err)
	})
}

// object returns an object without content. kind and version follow from the resource when it is created.
func object(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

var kinds = map[string]string{
	"namespaces": "Namespace", "configmaps": "ConfigMap", "deployments": "Deployment", "clusterroles": "ClusterRole",
	"managedclusters": "ManagedCluster", "bindingpolicies": "BindingPolicy", "bindings": "Binding",
	"customresourcedefinitions": "CustomResourceDefinition", "apiservices": "APIService", "widgets": "Widget",
}

func (e *environment) client(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	if resource == managed {
		return e.its.Resource(resource)
	}
	return e.wds.Resource(resource)
}

// create creates an object that goes, whatever holds it, at the end of the test.
func (e *environment) create(resource schema.GroupVersionResource, o *unstructured.Unstructured) {
	e.t.Helper()
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kinds[resource.Resource])
	client := e.client(resource).Namespace(o.GetNamespace())
	testenv.Eventually(e.t, patience, func() (bool, string) { // an API that just came may not accept writes yet
		_, err := client.Create(e.t.Context(), o, metav1.CreateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			e.t.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
	if resource == namespaces {
		return // nothing in a space without its content's controllers needs the time
	}
	e.t.Cleanup(func() { e.remove(resource, o.GetNamespace(), o.GetName()) })
}

func (e *environment) remove(resource schema.GroupVersionResource, namespace, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.t.Context()), patience)
	defer cancel()
	client := e.client(resource).Namespace(namespace)
	if resource == policies || resource == bindings {
		_, _ = client.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
	if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		e.t.Errorf("clean up: %v", err)
	}
}

func (e *environment) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) {
	e.t.Helper()
	_, err := e.client(resource).Namespace(namespace).Patch(e.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		e.t.Fatal(err)
	}
}

// cluster creates a ManagedCluster that the hub has accepted.
func (e *environment) cluster(name string, labels map[string]string) {
	e.t.Helper()
	c := object("", name, labels)
	c.Object["spec"] = map[string]any{"hubAcceptsClient": true}
	e.create(managed, c)
}

// policy creates a BindingPolicy of the test's own with the spec, in JSON.
func (e *environment) policy(name, spec string) string {
	e.t.Helper()
	p := object("", e.name+"-"+name, nil)
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(spec), &fields); err != nil {
		e.t.Fatal(err)
	}
	p.Object["spec"] = fields
	e.create(policies, p)
	return p.GetName()
}

func (e *environment) getPolicy(name string) *controlv1alpha1.BindingPolicy {
	e.t.Helper()
	return get(e, policies, name, &controlv1alpha1.BindingPolicy{})
}

func (e *environment) getBinding(name string) *controlv1alpha1.Binding {
	e.t.Helper()
	return get(e, bindings, name, &controlv1alpha1.Binding{})
}

// get returns nil if there is no such object.
func get[T any](e *environment, resource schema.GroupVersionResource, name string, into *T) *T {
	e.t.Helper()
	o, err := e.wds.Resource(resource).Get(e.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into)
	}
	if err != nil {
		e.t.Fatal(err)
	}
	return into
}

// entries shows a Binding as "resource namespace/name how", then "-> clusters".
func entries(b *controlv1alpha1.Binding) []string {
	if b == nil {
		return nil
	}
	shown := []string{}
	for _, c := range b.Spec.Workload.ClusterScope {
		shown = append(shown, c.Resource+" "+c.Name+how(c.DownsyncModulation))
	}
	for _, c := range b.Spec.Workload.NamespaceScope {
		shown = append(shown, c.Resource+" "+c.Name+how(c.DownsyncModulation))
	}
	for _, d := range b.Spec.Destinations {
		shown = append(shown, "-> "+d.ClusterID)
	}
	return shown
}

func how(m controlv1alpha1.DownsyncModulation) string {
	s := ""
	if m.CreateOnly {
		s += " createOnly"
	}
	if m.WantSingletonReportedState {
		s += " singleton"
	}
	if len(m.StatusCollectors) > 0 {
		s += " " + strings.Join(m.StatusCollectors, "+")
	}
	return s
}

// eventuallyBound waits until the Binding says just that.
func (e *environment) eventuallyBound(name string, want ...string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		b := e.getBinding(name)
		return b != nil && slices.Equal(want, entries(b)), fmt.Sprintf("Binding %s: %q, want %q", name, entries(b), want)
	})
}

// eventuallyCondition waits for "Status Reason" and returns the message.
func (e *environment) eventuallyCondition(name, kind, want string) string {
	e.t.Helper()
	message := ""
	testenv.Eventually(e.t, patience, func() (bool, string) {
		p := e.getPolicy(name)
		if p == nil {
			return false, "no policy " + name
		}
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		if c == nil {
			return false, fmt.Sprintf("%s has no condition %s", name, kind)
		}
		message = c.Message
		return string(c.Status)+" "+c.Reason == want && c.ObservedGeneration == p.Generation && p.Status.ObservedGeneration == p.Generation,
			fmt.Sprintf("%s: %s is %s %s: %s; want %s", name, kind, c.Status, c.Reason, c.Message, want)
	})
	return message
}

// writes counts the requests that write, as "METHOD path".
type writes struct {
	mu   sync.Mutex
	next http.RoundTripper
	seen []string
}

func (w *writes) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		body := ""
		if r.Body != nil {
			text, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(text))
			body = string(text)
		}
		w.mu.Lock()
		w.seen = append(w.seen, r.Method+" "+r.URL.Path+" "+body)
		w.mu.Unlock()
	}
	return w.next.RoundTrip(r)
}

func (w *writes) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// controller is one run of the controller.
type controller struct {
	*binding.Running
	*writes
	stop func()
}

// start runs the controller until stop, or the end of the test. Without inventories it reads its1.
func (e *environment) start(inventories ...binding.Inventory) *controller {
	e.t.Helper()
	c := &controller{writes: &writes{}}
	config := e.identity("wds1")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.writes.next = next
		return c.writes
	})
	if inventories == nil {
		inventories = []binding.Inventory{e.inventory()}
	}
	var err error
	c.Running, err = binding.Setup(binding.SetupConfig{WDS: config, WDSName: "wds1", Inventories: inventories, MaxBindingSize: e.maxBindingSize})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(e.t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx, 4) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Errorf("controller: %v", err)
		}
	})
	e.t.Cleanup(c.stop)
	return c
}

func (e *environment) inventory() binding.Inventory {
	return inventoryOf("its1", e.identity("its1"))
}

// identity returns a configuration with the rights that the controller has in production.
func (e *environment) identity(space string) *rest.Config {
	e.t.Helper()
	config := e.fleet.Config(e.t, space)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:starling-system:binding-controller",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:starling-system", "system:authenticated"},
	}
	return config
}

func inventoryOf(name string, config *rest.Config) binding.Inventory {
	return binding.Inventory{Name: name, Connect: func(context.Context) (*binding.Connection, error) {
		return binding.NewConnection(name, config)
	}}
}

// deaf is an inventory that cannot be read.
func deaf(name string) binding.Inventory {
	return binding.Inventory{Name: name, Connect: func(ctx context.Context) (*binding.Connection, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
}

func (e *environment) ready(c *controller) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		err := c.Ready()
		return err == nil, fmt.Sprint(err)
	})
}
