// Package binding tests against real API servers how policies become Bindings. There is no
// transport: the tests write what it would. The controller runs in the test process.
package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/controller/clusternames"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

// TestMain: the WDS calls webhooks and API servers, as one that is an ordinary cluster does.
func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{CallServers: true}) }

const patience = testenv.Patience

var (
	policies    = controlv1alpha1.BindingPolicies
	bindings    = controlv1alpha1.Bindings
	managed     = clusters.ManagedClusters
	widgets     = schema.GroupVersionResource{Group: "binding.example.com", Version: "v1", Resource: "widgets"}
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
	// name is the test's own: of its namespace, of labels, and the prefix of its policies and
	// clusters.
	name string
	// maxBindingSize is how large the controllers that are started make Bindings.
	maxBindingSize int
	// connect returns how the controllers that are started connect to a space.
	connect func(space string) *rest.Config
}

var installed sync.Once

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{t: t, fleet: fleet, name: testenv.Name(t), maxBindingSize: corebinding.DefaultMaxSize}
	e.connect = e.identity
	wds, its := fleet.Space(t, "wds1"), fleet.Space(t, "its1")
	e.wds, e.its = wds.Client, its.Client
	installed.Do(func() {
		wds.Install(t, testenv.APIs(t, "control.kubestellar.io_")...)
		its.Install(t, testenv.ManagedClusterCRD(t))
		wds.InstallRights(t, "wds")
		its.InstallRights(t, "its")
	})
	e.create(namespaces, object("", e.name, nil))
	return e
}

// object returns an object without content. kind and version follow from the resource when it is
// created.
func object(namespace, name string, labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetLabels(labels)
	return o
}

var kinds = map[string]string{
	"namespaces": "Namespace", "configmaps": "ConfigMap", "deployments": "Deployment", "clusterroles": "ClusterRole",
	"services":        "Service",
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

// delete deletes a policy, as a user does.
func (e *environment) delete(policy string) {
	e.t.Helper()
	if err := e.wds.Resource(policies).Delete(e.t.Context(), policy, metav1.DeleteOptions{}); err != nil {
		e.t.Fatal(err)
	}
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
	return testenv.Get[controlv1alpha1.BindingPolicy](e.t, e.wds.Resource(policies), name)
}

func (e *environment) getBinding(name string) *controlv1alpha1.Binding {
	e.t.Helper()
	return testenv.Get[controlv1alpha1.Binding](e.t, e.wds.Resource(bindings), name)
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
			return false, fmt.Sprintf("%s has no condition %s: %+v", name, kind, p.Status.Conditions)
		}
		message = c.Message
		return string(c.Status)+" "+c.Reason == want && c.ObservedGeneration == p.Generation && p.Status.ObservedGeneration == p.Generation,
			fmt.Sprintf("%s: %s is %s %s: %s; want %s", name, kind, c.Status, c.Reason, c.Message, want)
	})
	return message
}

// controller is one run of the controller.
type controller struct {
	*binding.Running
	*testenv.Traffic
	stop func()
}

// start runs the controllers until stop, or the end of the test. Without ITSes they read its1.
func (e *environment) start(itses ...its) *controller {
	e.t.Helper()
	return e.startWith(func(*controller) (binding.Observers, func(context.Context) error) { return binding.Observers{}, nil }, itses...)
}

// startWith is start with a controller that observes the others; run may be nil.
func (e *environment) startWith(beside func(*controller) (observers binding.Observers, run func(context.Context) error), itses ...its) *controller {
	e.t.Helper()
	c := &controller{Traffic: &testenv.Traffic{Events: true}}
	config := c.Count(e.connect("wds1"))
	if itses == nil {
		itses = []its{e.inventory()}
	}
	var connects []clusters.ITS
	writers := map[string]clusternames.Writer{}
	for _, its := range itses {
		connects = append(connects, its.ITS)
		if its.writer != nil {
			writers[its.Name] = its.writer
		}
	}
	reader := clusters.New(connects...)
	var err error
	c.Running, err = binding.Setup(binding.SetupConfig{WDS: config, WDSName: "wds1", Clusters: reader, Settings: settings.Bindings{MaxBindingSize: e.maxBindingSize}})
	if err != nil {
		e.t.Fatal(err)
	}
	names, err := clusternames.New(clusternames.Config{Clusters: reader, Writers: writers, Clock: clock.RealClock{}})
	if err != nil {
		e.t.Fatal(err)
	}
	observers, run := beside(c)
	running := []func(context.Context) error{reader.Run, names.Run, func(ctx context.Context) error { return c.Run(ctx, testenv.Leading(), 4, observers) }}
	if run != nil {
		running = append(running, run)
	}
	c.stop = testenv.Run(e.t, running...)
	return c
}

// its is an ITS, and what writes to it.
type its struct {
	clusters.ITS
	writer *writer.Writer
}

func (e *environment) inventory() its {
	return inventoryOf(e.t, "its1", e.connect("its1"))
}

// identity returns a configuration with the rights that the controller has in production.
func (e *environment) identity(space string) *rest.Config {
	e.t.Helper()
	return e.fleet.Space(e.t, space).AsServiceAccount("starling-system", "binding-controller")
}

func inventoryOf(t *testing.T, name string, config *rest.Config) its {
	t.Helper()
	w, err := writer.New(config, name, "binding-controller")
	if err != nil {
		t.Fatal(err)
	}
	return its{writer: w, ITS: clusters.ITS{Name: name, Connect: func(context.Context) (clusters.Source, error) {
		return clusters.NewSource(config)
	}}}
}

// unreachable is an ITS that cannot be read.
func unreachable(name string) its {
	return its{ITS: clusters.ITS{Name: name, Connect: func(ctx context.Context) (clusters.Source, error) {
		<-ctx.Done()
		return clusters.Source{}, ctx.Err()
	}}}
}

func (e *environment) ready(c *controller) {
	e.t.Helper()
	testenv.Ready(e.t, c.Ready)
}
