package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
)

var listKinds = map[schema.GroupVersionResource]string{{Version: "v1", Resource: "configmaps"}: "ConfigMapList"}

func configMapRef(namespace string, number int) objref.Ref {
	return objref.Ref{Resource: "configmaps", Namespace: namespace, Name: fmt.Sprintf("c-%03d", number)}
}

func stored(ref objref.Ref) *unstructured.Unstructured {
	o := configMap("5", ref.String())
	o.SetNamespace(ref.Namespace)
	o.SetName(ref.Name)
	return o
}

// reader reads objects as several Bindings would.
type reader struct {
	objects *objects
	client  *dynamicfake.FakeDynamicClient
	how     recipe

	mu       sync.Mutex
	requests map[string]int // "list <namespace>", "get <namespace>"
}

func newReader(exist ...objref.Ref) *reader {
	var all []runtime.Object
	for _, ref := range exist {
		all = append(all, stored(ref))
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), listKinds, all...)
	r := &reader{
		objects: newObjects(client, &fakeWatch{objects: map[objref.Ref]metav1.Object{}}), client: client,
		how: recipe{version: "v1", removal: &customtransform.Instructions{}}, requests: map[string]int{},
	}
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests[a.GetVerb()+" "+a.GetNamespace()]++
		return false, nil, nil
	})
	return r
}

// unread returns what of these is not cached.
func (r *reader) unread(refs []objref.Ref) batches {
	found := batches{}
	for _, ref := range refs {
		if _, ok := r.objects.cached(ref, r.how); !ok {
			found.add(ref, r.how)
		}
	}
	return found
}

// read reads objects as a Binding that lists them does, and returns what was found.
func (r *reader) read(ctx context.Context, refs []objref.Ref) map[objref.Ref]finding {
	r.objects.readTogether(ctx, r.unread(refs))
	found := map[objref.Ref]finding{}
	for _, ref := range refs {
		found[ref] = r.objects.find(ctx, ref, r.how, now)
	}
	return found
}

func several(namespace string, from, to int) []objref.Ref {
	var refs []objref.Ref
	for i := from; i < to; i++ {
		refs = append(refs, configMapRef(namespace, i))
	}
	return refs
}

// TestEachObjectIsReadOnce: at a start, Bindings that share a namespace share one list, even if
// each of them lists few objects there; so do Bindings with objects in many namespaces. Bindings
// with namespaces of their own read these.
func TestEachObjectIsReadOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		bindings [][]objref.Ref
		want     map[string]int
	}{
		"Shared":   {[][]objref.Ref{several("a", 0, 50), several("a", 50, 100), several("a", 100, 105)}, map[string]int{"list a": 1}},
		"Own":      {[][]objref.Ref{several("a", 0, 50), several("b", 0, 50)}, map[string]int{"list a": 1, "list b": 1}},
		"Both":     {[][]objref.Ref{several("a", 0, 50), append(several("a", 40, 60), several("b", 0, 30)...)}, map[string]int{"list a": 1, "list b": 1}},
		"Few":      {[][]objref.Ref{several("a", 0, 5), several("b", 0, 5)}, map[string]int{"get a": 5, "get b": 5}},
		"Overlaps": {[][]objref.Ref{several("a", 0, 50), several("a", 0, 50), several("a", 10, 70)}, map[string]int{"list a": 1}},
		"Scattered": {func() (bindings [][]objref.Ref) {
			for i := range 3 {
				var refs []objref.Ref
				for n := range 30 {
					refs = append(refs, configMapRef(fmt.Sprint("n-", n), i))
				}
				bindings = append(bindings, refs)
			}
			return bindings
		}(), map[string]int{"list ": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			exist := map[objref.Ref]bool{}
			for _, refs := range tc.bindings {
				for _, ref := range refs {
					exist[ref] = true
				}
			}
			r := newReader(keys(exist)...)
			for _, refs := range tc.bindings { // what ListAll does
				r.objects.want(r.unread(refs))
			}
			var reading sync.WaitGroup
			for _, refs := range tc.bindings {
				reading.Go(func() {
					for ref, f := range r.read(t.Context(), refs) {
						if f.manifest == nil {
							t.Errorf("%s is not known: %v", ref, f.err)
						}
					}
				})
			}
			reading.Wait()
			if diff := cmp.Diff(tc.want, r.requests); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if len(r.objects.wanted) > 0 {
				t.Errorf("still wanted: %v", r.objects.wanted)
			}
		})
	}
}

func keys(refs map[objref.Ref]bool) (all []objref.Ref) {
	for ref := range refs {
		all = append(all, ref)
	}
	return all
}

// TestReadsAreKnowledge: however objects are spread, with lists that fail, requests that fail, and
// Bindings that read side by side and leave, an object that exists is never taken as missing, one
// that does not exist is never known, and what no Binding lists any more is not kept.
func TestReadsAreKnowledge(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		exist := map[objref.Ref]bool{}
		var all []objref.Ref
		for namespace := range 1 + random.IntN(30) {
			for number := range random.IntN(60) {
				ref := configMapRef(fmt.Sprint("n-", namespace), number)
				all = append(all, ref)
				exist[ref] = random.IntN(10) > 0
			}
		}
		there := maps.Clone(exist)
		maps.DeleteFunc(there, func(_ objref.Ref, exists bool) bool { return !exists })
		r := newReader(keys(there)...)
		failures := rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex
		r.client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			most := map[string]int{"list": 3, "get": 20}[a.GetVerb()]
			return failures.IntN(most) == 0, nil, errors.New("no answer")
		})
		var reading sync.WaitGroup
		for range 4 {
			var refs []objref.Ref
			for _, ref := range all {
				if random.IntN(2) == 0 {
					refs = append(refs, ref)
				}
			}
			if random.IntN(2) == 0 {
				r.objects.want(r.unread(refs))
			}
			reading.Go(func() {
				for ref, f := range r.read(t.Context(), refs) {
					switch missing := errors.Is(f.err, errMissing); {
					case exist[ref] && missing, !exist[ref] && f.manifest != nil:
						t.Errorf("seed %d: %s, exists %v: known %v, %v", seed, ref, exist[ref], f.manifest != nil, f.err)
					case f.manifest == nil && !missing && !f.retry:
						t.Errorf("seed %d: %s is not known, and not read again: %v", seed, ref, f.err)
					}
				}
			})
		}
		reading.Wait()
		all = append(all, several("n-0", 0, 60)...)
		gone := map[objref.Ref]bool{}
		for _, ref := range all {
			gone[ref] = true
		}
		r.objects.forget(gone)
		if len(r.objects.cache)+len(r.objects.wanted) > 0 {
			t.Errorf("seed %d: kept %d objects, wanted %v", seed, len(r.objects.cache), r.objects.wanted)
		}
	}
}

// TestForgottenIsNotListed: what no Binding lists any more when the list arrives is not cached.
func TestForgottenIsNotListed(t *testing.T) {
	refs := several("a", 0, 40)
	r := newReader(refs...)
	r.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		r.objects.forget(map[objref.Ref]bool{refs[7]: true})
		return false, nil, nil
	})
	r.objects.readTogether(t.Context(), r.unread(refs))
	if _, ok := r.objects.cached(refs[7], r.how); ok {
		t.Error("the object is cached")
	}
	if _, ok := r.objects.cached(refs[8], r.how); !ok {
		t.Error("the other objects are not cached")
	}
}

// TestReadingEnds: the end of the context ends it.
func TestReadingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	refs := several("a", 0, 40)
	r := newReader(refs...)
	r.client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, ctx.Err()
	})
	r.objects.readTogether(ctx, r.unread(refs))
	if diff := cmp.Diff(map[string]int{}, r.requests); diff != "" {
		t.Errorf("more requests (-want +got):\n%s", diff)
	}
}
