// Package dynamicinformer tests against a real API server how watches follow the APIs that it
// serves.
package dynamicinformer

import (
	"context"
	"fmt"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}, CallServers: true})
}

const patience = testenv.Patience

var (
	crds        = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	configMaps  = schema.GroupResource{Resource: "configmaps"}
	widgets     = schema.GroupResource{Group: "example.com", Resource: "widgets"}
)

// objects is a Handler that stores what it receives.
type objects struct {
	mu      sync.Mutex
	known   map[objref.Ref]metav1.Object
	stopped map[schema.GroupResource]bool
	deleted map[schema.GroupResource]int
}

func (o *objects) OnChange(resource dynamicinformer.Resource, before, after metav1.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if after == nil {
		o.deleted[resource.GroupResource()]++
		delete(o.known, objref.New(resource.GroupResource(), before.GetNamespace(), before.GetName()))
		return
	}
	o.known[objref.New(resource.GroupResource(), after.GetNamespace(), after.GetName())] = after
}

func (o *objects) OnSynced(dynamicinformer.Resource) {}

func (o *objects) OnStopped(resource dynamicinformer.Resource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopped[resource.GroupResource()] = true
}

func (o *objects) knows(ref objref.Ref) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[ref] != nil
}

// start runs a Set over everything that the space serves until the test ends.
func start(t *testing.T) (*dynamicinformer.Discovery, *dynamicinformer.Set, *objects, dynamic.Interface) {
	t.Helper()
	config := testenv.Shared(t).Config(t, "wds1")
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	source := dynamicinformer.NewDiscovery(discoveryClient, dynamicClient, nil)
	handler := &objects{known: map[objref.Ref]metav1.Object{}, stopped: map[schema.GroupResource]bool{}, deleted: map[schema.GroupResource]int{}}
	set, err := dynamicinformer.New(dynamicinformer.Config{Source: source, Informer: dynamicinformer.MetadataInformer(metadataClient), Handler: handler})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, source.Run, func(ctx context.Context) error { return set.Run(ctx) })
	synced(t, set, configMaps)
	return source, set, handler, dynamicClient
}

func synced(t *testing.T, set *dynamicinformer.Set, gr schema.GroupResource) {
	t.Helper()
	testenv.Eventually(t, patience, func() (bool, string) {
		resource, _ := set.Resource(gr)
		return set.Synced(gr), fmt.Sprintf("%s is not synced (%+v)", gr, resource)
	})
}

func widgetCRD(versions ...string) *unstructured.Unstructured {
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com",
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Scope: apiextensionsv1.NamespaceScoped,
		},
	}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		})
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		panic(err) // no CRD fails to convert
	}
	return &unstructured.Unstructured{Object: content}
}

func TestKindsComeAndGo(t *testing.T) {
	_, set, handler, client := start(t)
	created, err := client.Resource(crds).Create(t.Context(), widgetCRD("v1", "v1beta1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	synced(t, set, widgets)
	ref := objref.New(widgets, "default", "one")
	for _, name := range []string{"one", "two"} {
		widget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name, "namespace": "default"},
		}}
		gvr := widgets.WithVersion("v1")
		testenv.Eventually(t, patience, func() (bool, string) {
			_, err := client.Resource(gvr).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{})
			return err == nil, fmt.Sprint(err)
		})
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		return handler.knows(ref) && handler.knows(objref.New(widgets, "default", "two")), "the objects of the new kind are not known"
	})

	// v1, which is watched, is served no longer: the same objects are watched in v1beta1, and none
	// of them is gone.
	crd := widgetCRD("v1beta1", "v1")
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	versions[1].(map[string]any)["served"] = false
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	crd.SetResourceVersion(latest(t, client, created.GetName()))
	if _, err := client.Resource(crds).Update(t.Context(), crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		resource, ok := set.Resource(widgets)
		return ok && resource.Version == "v1beta1" && set.Synced(widgets), fmt.Sprintf("watched as %+v", resource)
	})
	handler.mu.Lock()
	if handler.deleted[widgets] != 0 || handler.stopped[widgets] {
		t.Errorf("a change of version was taken for an end: %d objects deleted, stopped %t", handler.deleted[widgets], handler.stopped[widgets])
	}
	handler.mu.Unlock()

	testenv.DeleteKind(t, client, created.GetName())
	testenv.Eventually(t, patience, func() (bool, string) {
		handler.mu.Lock()
		defer handler.mu.Unlock()
		return handler.stopped[widgets], "the kind is gone but still watched"
	})
}

func latest(t *testing.T, client dynamic.Interface, name string) string {
	t.Helper()
	crd, err := client.Resource(crds).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return crd.GetResourceVersion()
}

// TestBrokenAPIStopsNothingElse attacks invariant 1: an aggregated API that does not answer.
func TestBrokenAPIStopsNothingElse(t *testing.T) {
	source, set, handler, client := start(t)
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": "v1.broken.example.com"},
		"spec": map[string]any{
			"group": "broken.example.com", "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": "default", "name": "nowhere"},
		},
	}}
	if _, err := client.Resource(apiServices).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := client.Resource(apiServices).Delete(t.Context(), service.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	testenv.Eventually(t, patience, func() (bool, string) {
		return source.Err() != nil, "discovery has not met the broken API"
	})
	if !set.Synced(configMaps) {
		t.Error("a broken API ended the watch of another")
	}
	// New kinds are still found.
	if _, err := client.Resource(crds).Create(t.Context(), widgetCRD("v1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	synced(t, set, widgets)
	testenv.DeleteKind(t, client, "widgets.example.com")
	testenv.Eventually(t, patience, func() (bool, string) {
		handler.mu.Lock()
		defer handler.mu.Unlock()
		return handler.stopped[widgets], "the kind is gone but still watched"
	})
}
