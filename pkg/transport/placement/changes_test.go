package placement

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
)

// published collects the Placements of one Binding.
type published struct{ all []*Placement }

func (p *published) OnBinding(types.UID) {}
func (p *published) OnBindingsSynced()   {}

func (p *published) OnPlacement(_ string, _, after *Placement) { p.all = append(p.all, after) }

// gathering is a Gatherer of one Binding that lists n Services, and what it reads.
type gathering struct {
	*Gatherer
	*published

	watch  *fakeWatch
	client *dynamicfake.FakeDynamicClient
}

func newGathering(t testing.TB, n int) *gathering {
	t.Helper()
	g := &gathering{published: &published{}, watch: &fakeWatch{objects: map[objref.Ref]metav1.Object{}, synced: true}}
	bindings := cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers())
	binding := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{
		Name: "b", UID: "uid", Generation: 1, Finalizers: []string{controlv1alpha1.BindingFinalizer},
	}}
	var objects []runtime.Object
	for i := range n {
		o := serviceObject(fmt.Sprint("s", i))
		objects = append(objects, o)
		g.watch.objects[serviceRef(o.GetName())] = o
		binding.Spec.Workload.NamespaceScope = append(binding.Spec.Workload.NamespaceScope, controlv1alpha1.NamespaceScopeDownsyncClause{
			NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{Version: "v1", Resource: "services", Namespace: "web", Name: o.GetName()},
		})
	}
	if err := bindings.Add(binding); err != nil {
		t.Fatal(err)
	}
	g.client = dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), objects...)
	g.Gatherer = &Gatherer{
		config: Config{
			Queue: ignored{}, Consumer: g.published, Mailboxes: holding{}, Clock: clock.RealClock{}, Limits: packing.Limits{Count: 1500, Bytes: 512000},
		},
		index: NewIndex(bindings), watches: newWatches(), packages: newPackages(nil), changed: map[string]change{},
	}
	g.objects = newObjects(g.client, g.watch)
	transforms := cache.NewSharedIndexInformer(&cache.ListWatch{}, &controlv1alpha1.CustomTransform{}, 0, cache.Indexers{})
	var err error
	if g.transforms, err = newCustomTransforms(transforms, nil, clock.RealClock{}, g); err != nil {
		t.Fatal(err)
	}
	g.sync(t)
	return g
}

// ignored is a queue that collects nothing.
type ignored struct{}

func (ignored) Add(string) {}

func serviceRef(name string) objref.Ref {
	return objref.Ref{Resource: "services", Namespace: "web", Name: name}
}

func serviceObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{
			"name": name, "namespace": "web", "uid": "uid-" + name, "resourceVersion": "1",
			"labels": map[string]any{controlv1alpha1.LabelSingletonStatus: "true"},
		},
		"spec": map[string]any{"type": "ExternalName"},
	}}
}

func (g *gathering) sync(t testing.TB) {
	t.Helper()
	if _, err := g.Sync(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
}

// rewrite changes a Service, and returns it. The watch does not show that yet.
func (g *gathering) rewrite(t testing.TB, name, version string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	o, err := g.client.Resource(services).Namespace("web").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o = o.DeepCopy()
	o.SetResourceVersion(version)
	change(o)
	if err := g.client.Tracker().Update(services, o, "web"); err != nil {
		t.Fatal(err)
	}
	return o
}

// remove deletes a Service, and notifies the Gatherer as its watch does.
func (g *gathering) remove(t testing.TB, name string) {
	t.Helper()
	if err := g.client.Tracker().Delete(services, "web", name); err != nil {
		t.Fatal(err)
	}
	delete(g.watch.objects, serviceRef(name))
	g.enqueue("b", "")
}

// recreate creates a Service that was deleted, and notifies the Gatherer as its watch does.
func (g *gathering) recreate(t testing.TB, name, version string) {
	t.Helper()
	o := serviceObject(name)
	o.SetUID(types.UID("uid-" + version))
	o.SetResourceVersion(version)
	if err := g.client.Tracker().Create(services, o, "web"); err != nil {
		t.Fatal(err)
	}
	g.watch.objects[serviceRef(name)] = o
	g.enqueue("b", "")
}

// write changes a Service, and notifies the Gatherer as its watch does.
func (g *gathering) write(t testing.TB, name, version string, change func(*unstructured.Unstructured)) {
	t.Helper()
	before := g.watch.objects[serviceRef(name)]
	after := g.rewrite(t, name, version, change)
	g.watch.objects[serviceRef(name)] = after
	if ofItself(serviceRef(name), before, after) {
		g.enqueueFor("b", serviceRef(name), "")
	} else {
		g.enqueue("b", "")
	}
}

var services = serviceRef("").GroupResource().WithVersion("v1")

func returned(message string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.Object["status"] = map[string]any{"message": message} }
}

func edited(o *unstructured.Unstructured) {
	o.Object["spec"] = map[string]any{"externalName": "example.com"}
}

// TestChanges: a returned status of a kind whose generation is not counted publishes nothing. An
// edit is published, whatever comes with it.
func TestChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(t *testing.T, g *gathering)
		published int
		edited    bool
	}{
		"Status": {func(t *testing.T, g *gathering) { g.write(t, "s1", "2", returned("a")) }, 0, false},
		"Edit":   {func(t *testing.T, g *gathering) { g.write(t, "s1", "2", edited) }, 1, true},
		"EditAndStatusOfAnother": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", edited)
			g.write(t, "s2", "3", returned("a"))
		}, 1, true},
		"StatusOfAnotherAndEdit": {func(t *testing.T, g *gathering) {
			g.write(t, "s2", "2", returned("a"))
			g.write(t, "s1", "3", edited)
		}, 1, true},
		"OfAnotherKindOfChange": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", returned("a"))
			g.enqueue("b", "")
		}, 1, false},
		"AnotherGatheredTheEdit": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", edited)
			how, _ := g.objects.recipeOf(serviceRef("s1"))
			g.objects.find(t.Context(), serviceRef("s1"), how, time.Now()) // as the Sync of another Binding does
		}, 1, true},
		"Deleted": {func(t *testing.T, g *gathering) {
			g.write(t, "s1", "2", returned("a"))
			delete(g.watch.objects, serviceRef("s1"))
		}, 1, false},
		"Retry": {func(*testing.T, *gathering) {}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGathering(t, 3)
			before := g.index.Get("b")
			g.all = nil
			tc.change(t, g)
			g.sync(t)
			if len(g.all) != tc.published {
				t.Errorf("%d Placements, want %d", len(g.all), tc.published)
			}
			was, is := before.Objects[serviceRef("s1")], g.index.Get("b").Objects[serviceRef("s1")]
			if got := is.Known && was.Hash != is.Hash; got != tc.edited {
				t.Errorf("edited: %t, want %t", got, tc.edited)
			}
		})
	}
}

// TestChangesOfUnsettled: a Binding that is to be gathered again is, whatever it is enqueued for.
func TestChangesOfUnsettled(t *testing.T) {
	g := newGathering(t, 3)
	delete(g.watch.objects, serviceRef("s2"))
	g.enqueue("b", "")
	g.sync(t) // s2 is missing, for less than the grace
	if g.index.Get("b").settled {
		t.Fatal("the Placement does not change by itself any more")
	}
	g.all = nil
	g.write(t, "s1", "2", returned("a"))
	g.sync(t)
	if len(g.all) != 1 {
		t.Errorf("%d Placements, want 1", len(g.all))
	}
}

func annotated(key, value string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
		o.SetAnnotations(annotations)
	}
}

// randomly does something to one of five Services.
func (g *gathering) randomly(t testing.TB, random *rand.Rand, version int) {
	t.Helper()
	name, text := fmt.Sprint("s", random.Intn(5)), fmt.Sprint(version)
	if _, exists := g.watch.objects[serviceRef(name)]; !exists {
		g.recreate(t, name, text)
		return
	}
	switch random.Intn(9) {
	case 0:
		g.write(t, name, text, returned(text))
	case 1:
		g.write(t, name, text, annotated(controlv1alpha1.AnnotationApply, []string{"create-only", "server-side", "nonsense"}[random.Intn(3)]))
	case 2:
		g.write(t, name, text, annotated(controlv1alpha1.AnnotationExpandTemplates, "true"))
	case 3:
		g.write(t, name, text, func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
	case 4:
		g.remove(t, name)
	case 5: // until it is read, more is written than the watch shows
		g.write(t, name, text, edited)
		g.rewrite(t, name, fmt.Sprint(version+1), annotated(controlv1alpha1.AnnotationApply, "create-only"))
	default:
		g.write(t, name, text, func(o *unstructured.Unstructured) {
			o.Object["spec"] = map[string]any{"externalName": []string{"a", "b", "{{ .name }}", "{{ broken"}[random.Intn(4)]}
		})
	}
}

// TestRevisions: after random changes, the Placement is the one that gathering the whole Binding
// gives.
func TestRevisions(t *testing.T) {
	revised := 0
	for seed := range int64(50) {
		random := rand.New(rand.NewSource(seed))
		g := newGathering(t, 5)
		g.config.Clock = testingclock.NewFakeClock(time.Now())
		for step := range 60 {
			for i := range 1 + random.Intn(2) {
				g.randomly(t, random, 100*(step+1)+10*i)
			}
			whole, before := g.changed["b"].whole, g.index.Get("b")
			g.sync(t)
			got := g.index.Get("b")
			if !whole && before.settled && got != before {
				revised++
			}
			binding, err := g.index.Binding("b")
			if err != nil {
				t.Fatal(err)
			}
			want, _ := g.gather(t.Context(), binding, nil)
			if !reflect.DeepEqual(got.Objects, want.Objects) || !reflect.DeepEqual(got.Desired, want.Desired) {
				t.Fatalf("seed %d, step %d: objects %+v, want %+v", seed, step, got.Objects, want.Objects)
			}
			if diff := cmp.Diff(slices.Collect(maps.Keys(want.Templates)), slices.Collect(maps.Keys(got.Templates)), sorted); diff != "" {
				t.Fatalf("seed %d, step %d: templates (-want +got):\n%s", seed, step, diff)
			}
			if diff := cmp.Diff(want.Problems, got.Problems); diff != "" {
				t.Fatalf("seed %d, step %d: problems (-want +got):\n%s", seed, step, diff)
			}
		}
	}
	if revised < 200 {
		t.Errorf("%d Placements were revised: the test tests little", revised)
	}
}

var sorted = cmpopts.SortSlices(func(a, b objref.Ref) bool { return objref.Compare(a, b) < 0 })

// BenchmarkSync gathers a Binding of n objects one of which was edited, and one with a returned
// status.
func BenchmarkSync(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4} {
		for name, change := range map[string]func(string) func(*unstructured.Unstructured){
			"status": returned,
			"edit": func(message string) func(*unstructured.Unstructured) {
				return func(o *unstructured.Unstructured) { o.Object["spec"] = map[string]any{"externalName": message} }
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				g := newGathering(b, n)
				version := 1
				for b.Loop() {
					version++
					g.write(b, "s1", fmt.Sprint(version), change(fmt.Sprint(version)))
					g.sync(b)
				}
			})
		}
	}
}
