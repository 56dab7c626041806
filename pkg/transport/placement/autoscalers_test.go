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
	"github.com/starlinghq/starling/pkg/core/plan"
)

// queued is a queue.
type queued struct{ names []string }

func (q *queued) Add(name string) { q.names = append(q.names, name) }

// bindings are Bindings of several policies, with what they list of Namespace web.
type bindings struct {
	*gathering
	*queued
}

func newBindings(t *testing.T) *bindings {
	t.Helper()
	b := &bindings{newGathering(t, 0), &queued{}}
	b.config.Queue = b.queued
	return b
}

var (
	deploymentsGVR = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	scalersGVR     = schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	namespacesGVR  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// webOf is the object of that name and resource in Namespace web, or the Namespace.
func webOf(gvr schema.GroupVersionResource) objref.Ref {
	if gvr == namespacesGVR {
		return objref.New(gvr.GroupResource(), "", "web")
	}
	return objref.New(gvr.GroupResource(), "web", "web")
}

// bind makes a Binding of a policy list these.
func (b *bindings) bind(t *testing.T, name, policy string, lists ...schema.GroupVersionResource) {
	t.Helper()
	isController := true
	binding := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Generation: 1, Finalizers: []string{controlv1alpha1.BindingFinalizer},
		OwnerReferences: []metav1.OwnerReference{{Kind: "BindingPolicy", Name: policy, UID: types.UID(policy), Controller: &isController}},
	}}
	workload := &binding.Spec.Workload
	for _, gvr := range lists {
		if ref := webOf(gvr); ref.Namespace == "" {
			workload.ClusterScope = append(workload.ClusterScope, controlv1alpha1.ClusterScopeDownsyncClause{
				ClusterScopeDownsyncObject: controlv1alpha1.ClusterScopeDownsyncObject{Version: gvr.Version, Resource: gvr.Resource, Name: ref.Name},
			})
			continue
		}
		workload.NamespaceScope = append(workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
				Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: "web", Name: "web",
			},
		})
	}
	if err := b.index.bindings.Add(binding); err != nil {
		t.Fatal(err)
	}
	b.Add(name)
}

// set creates an object in the WDS.
func (b *bindings) set(t *testing.T, gvr schema.GroupVersionResource, kind string, annotations, spec map[string]any) {
	t.Helper()
	ref := webOf(gvr)
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": ref.Name, "uid": kind, "resourceVersion": "1", "annotations": annotations},
	}}
	o.SetNamespace(ref.Namespace)
	if err := b.client.Tracker().Create(gvr, o, ref.Namespace); err != nil {
		t.Fatal(err)
	}
	b.watch.objects[ref] = o
}

// settle works until the queue is empty, and returns which Bindings have an object with options of
// that kind.
func (b *bindings) settle(t *testing.T, gvr schema.GroupVersionResource, is func(plan.Options) bool) (names []string) {
	t.Helper()
	for rounds := 0; len(b.names) > 0; rounds++ {
		if rounds > 20 {
			t.Fatal("Bindings enqueue each other forever")
		}
		name := b.names[0]
		b.names = b.names[1:]
		if _, err := b.Sync(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range b.index.All() {
		if o := p.Objects[webOf(gvr)]; o.Known && is(o.Options) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestAutoscalersBeside: an autoscaler scales what another Binding of its policy lists, from its
// creation to its deletion, and nothing that a Binding of another policy lists.
func TestAutoscalersBeside(t *testing.T) {
	b := newBindings(t)
	check := func(step string, want ...string) {
		t.Helper()
		if got := b.settle(t, deploymentsGVR, func(o plan.Options) bool { return o.IgnoredFields != "" }); !slices.Equal(got, want) {
			t.Errorf("%s: the replicas are left alone by %q, want %q", step, got, want)
		}
	}
	b.set(t, deploymentsGVR, "Deployment", nil, map[string]any{"replicas": int64(2)})
	b.bind(t, "one", "p", deploymentsGVR)
	b.bind(t, "other", "q", deploymentsGVR)
	check("no autoscaler")
	b.set(t, scalersGVR, "HorizontalPodAutoscaler", nil, map[string]any{
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
	})
	b.bind(t, "two", "p", scalersGVR)
	check("one beside", "one")
	b.bind(t, "two", "p")
	check("not listed any more")
	b.bind(t, "three", "p", scalersGVR)
	check("in a third Binding", "one")
	if err := b.index.bindings.Delete(&controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "three"}}); err != nil {
		t.Fatal(err)
	}
	b.Add("three")
	check("that Binding is gone")
}

// TestKeptBeside: a Namespace stays for an object that stays, of any Binding of its policy, as long
// as some work may have that object.
func TestKeptBeside(t *testing.T) {
	b := newBindings(t)
	works := holding{}
	b.config.Mailboxes = works
	check := func(step string, want ...string) {
		t.Helper()
		if got := b.settle(t, namespacesGVR, func(o plan.Options) bool { return o.Orphan }); !slices.Equal(got, want) {
			t.Errorf("%s: the Namespace stays by %q, want %q", step, got, want)
		}
	}
	b.set(t, namespacesGVR, "Namespace", nil, nil)
	b.set(t, deploymentsGVR, "Deployment", map[string]any{controlv1alpha1.AnnotationOnRemoval: "orphan"}, nil)
	b.bind(t, "one", "p", namespacesGVR)
	b.bind(t, "other", "q", namespacesGVR)
	check("nothing stays")
	b.bind(t, "one", "p", namespacesGVR, deploymentsGVR)
	check("in the same Binding", "one")
	b.bind(t, "one", "p", namespacesGVR)
	check("not listed any more")
	b.bind(t, "two", "p", deploymentsGVR)
	check("in a Binding beside", "one")
	works[webOf(deploymentsGVR)] = struct{}{}
	b.bind(t, "two", "p")
	check("not listed any more, and in the works", "one")
	delete(works, webOf(deploymentsGVR))
	b.bind(t, "two", "p")
	check("not in the works")

	b.bind(t, "two", "p", deploymentsGVR)
	check("again", "one")
	for _, name := range []string{"one", "two"} {
		binding, err := b.index.Binding(name)
		if err != nil {
			t.Fatal(err)
		}
		binding = binding.DeepCopy()
		binding.DeletionTimestamp = new(metav1.Now())
		if err := b.index.bindings.Update(binding); err != nil {
			t.Fatal(err)
		}
		b.Add(name)
	}
	check("deleted")
	if orphan, known := b.index.Get("one").Orphans(webOf(namespacesGVR)); !orphan || !known {
		t.Errorf("the policy is deleted, Binding one first: the Namespace stays %t, known %t", orphan, known)
	}
}
