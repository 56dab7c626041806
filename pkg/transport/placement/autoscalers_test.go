package placement

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// queued is a queue.
type queued struct{ names []string }

func (q *queued) Add(name string) { q.names = append(q.names, name) }

// TestAutoscalersBeside: an autoscaler scales what another Binding of its policy lists, from its
// creation to its deletion, and nothing that a Binding of another policy lists.
func TestAutoscalersBeside(t *testing.T) {
	g, queue := newGathering(t, 0), &queued{}
	g.config.Queue = queue
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	autoscalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	refOf := func(gvr schema.GroupVersionResource) objref.Ref {
		return objref.New(gvr.GroupResource(), "web", "web")
	}
	bind := func(name, policy string, lists ...schema.GroupVersionResource) {
		t.Helper()
		isController := true
		b := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), Generation: 1, Finalizers: []string{controlv1alpha1.BindingFinalizer},
			OwnerReferences: []metav1.OwnerReference{{Kind: "BindingPolicy", Name: policy, UID: types.UID(policy), Controller: &isController}},
		}}
		for _, gvr := range lists {
			b.Spec.Workload.NamespaceScope = append(b.Spec.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
				NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
					Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: "web", Name: "web",
				},
			})
		}
		if err := g.index.bindings.Add(b); err != nil {
			t.Fatal(err)
		}
		queue.Add(name)
	}
	set := func(gvr schema.GroupVersionResource, kind string, spec map[string]any) {
		t.Helper()
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": gvr.GroupVersion().String(), "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": "web", "namespace": "web", "uid": kind, "resourceVersion": "1"},
		}}
		if err := g.client.Tracker().Create(gvr, o, "web"); err != nil {
			t.Fatal(err)
		}
		g.watch.objects[refOf(gvr)] = o
	}
	// scaled works until the queue is empty, and returns which Bindings leave the replicas alone.
	scaled := func() (names []string) {
		t.Helper()
		for rounds := 0; len(queue.names) > 0; rounds++ {
			if rounds > 20 {
				t.Fatal("Bindings enqueue each other forever")
			}
			name := queue.names[0]
			queue.names = queue.names[1:]
			if _, err := g.Sync(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range g.index.All() {
			if o := p.Objects[refOf(deployments)]; o.Known && o.Options.IgnoredFields != "" {
				names = append(names, p.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	check := func(step string, want ...string) {
		t.Helper()
		if got := scaled(); !slices.Equal(got, want) {
			t.Errorf("%s: the replicas are left alone by %q, want %q", step, got, want)
		}
	}
	set(deployments, "Deployment", map[string]any{"replicas": int64(2)})
	bind("one", "p", deployments)
	bind("other", "q", deployments)
	check("no autoscaler")
	set(autoscalers, "HorizontalPodAutoscaler", map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
	})
	bind("two", "p", autoscalers)
	check("one beside", "one")
	bind("two", "p")
	check("not listed any more")
	bind("three", "p", autoscalers)
	check("in a third Binding", "one")
	if err := g.index.bindings.Delete(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "three"}}); err != nil {
		t.Fatal(err)
	}
	queue.Add("three")
	check("that Binding is gone")
}
