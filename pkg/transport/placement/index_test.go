package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestIndex: which Bindings list an object, and which objects several of them or none list.
func TestIndex(t *testing.T) {
	x := NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()))
	a := &Placement{Name: "a", Objects: map[objref.Ref]plan.Object{settings: {}}, Destinations: map[string]struct{}{"one": {}}}
	for _, name := range []string{"a", "b", "c"} {
		x.List(name, maps.Keys(a.Objects))
	}
	x.Publish("a", a)
	x.View(func(v View) {
		if got := slices.Sorted(v.AtAny(map[string]struct{}{"one": {}}).Listing(settings)); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("listing: %q", got)
		}
		if shared := v.Shared(a); !slices.Equal(shared, []objref.Ref{settings}) || !v.OthersList("a", settings) {
			t.Errorf("shared: %v", shared)
		}
	})
	for _, name := range []string{"b", "c"} {
		if done := x.Publish(name, nil); len(done.Unlisted) > 0 {
			t.Errorf("%s is gone, and a still lists it: %+v", name, done)
		}
	}
	x.View(func(v View) {
		if shared := v.Shared(a); len(shared) > 0 || v.OthersList("a", settings) {
			t.Errorf("shared by one: %v", shared)
		}
	})
	if done := x.Publish("a", nil); done.Before != a || !done.Unlisted[settings] {
		t.Errorf("nobody lists it: %+v", done)
	}
	if n := len(x.placements) + len(x.listed) + len(x.listings) + len(x.shared) + len(x.at) + len(x.unplaced); n > 0 {
		t.Errorf("%d entries are left: %+v", n, x)
	}
}

// TestNear: the Bindings that list an object at some destinations are the same, whichever way they
// are found.
func TestNear(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 31))
		x := NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()))
		ref := func() objref.Ref { return objref.Ref{Resource: "configmaps", Name: fmt.Sprint(random.IntN(3))} }
		sites := func() map[string]struct{} {
			some := map[string]struct{}{}
			for range random.IntN(4) {
				some[fmt.Sprint(random.IntN(5))] = struct{}{}
			}
			return some
		}
		for range 60 {
			name := fmt.Sprint(random.IntN(8))
			switch random.IntN(4) {
			case 0:
				x.Publish(name, nil)
			case 1:
				x.List(name, slices.Values([]objref.Ref{ref()}))
			default:
				p := &Placement{Name: name, Destinations: sites(), Provisional: random.IntN(5) == 0, Objects: map[objref.Ref]plan.Object{}}
				for range random.IntN(3) {
					p.Objects[ref()] = plan.Object{}
				}
				x.List(name, maps.Keys(p.Objects))
				x.Publish(name, p)
			}
			at, where := ref(), sites()
			var want []string
			for _, name := range x.Listing(at) {
				p := x.placements[name]
				near := p == nil || p.Provisional
				for d := range where {
					near = near || p.Lists(d)
				}
				if near {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			x.View(func(v View) {
				if got := slices.Sorted(v.AtAny(where).Listing(at)); !slices.Equal(want, got) {
					t.Fatalf("seed %d: %q at %v, want %q", seed, got, where, want)
				}
				for d := range where {
					if len(where) == 1 && !slices.Equal(want, slices.Sorted(v.At(d).Listing(at))) {
						t.Fatalf("seed %d: at one destination: %q, want %q", seed, slices.Sorted(v.At(d).Listing(at)), want)
					}
				}
			})
		}
	}
}

// TestSources: a Binding exists from its creation to its deletion, and several sources exist while
// one has packages.
func TestSources(t *testing.T) {
	x := NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()))
	plain := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	recreated := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "2"}}
	recreated.Spec.Workload.Packages = []controlv1alpha1.PackageClause{{Namespace: "default", Repository: "edge", Package: "web"}}
	steps := []struct {
		before, after *controlv1alpha1.Binding
		want          map[string]string
		several       bool
	}{
		{nil, plain, map[string]string{"1": ""}, false},
		{plain, plain, map[string]string{"1": ""}, false},
		{plain, recreated, map[string]string{"2": "package default/edge/web"}, true},
		{recreated, nil, map[string]string{}, false},
	}
	for i, step := range steps {
		x.NoteBinding(step.before, step.after)
		got := map[string]string{}
		for uid, source := range x.sources {
			got[string(uid)] = source
		}
		x.View(func(v View) {
			if !maps.Equal(got, step.want) || v.SeveralSources() != step.several {
				t.Errorf("step %d: %v, several %t", i, got, v.SeveralSources())
			}
		})
	}
}

// TestUnplace: without their Placements, Bindings list their objects still, and may deliver
// anywhere.
func TestUnplace(t *testing.T) {
	x := NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()))
	x.List("a", slices.Values([]objref.Ref{settings}))
	x.Publish("a", &Placement{Name: "a", Objects: map[objref.Ref]plan.Object{settings: {}}, Destinations: map[string]struct{}{"one": {}}})
	if n := x.Unplace(); n != 1 || x.Get("a") != nil {
		t.Errorf("%d were forgotten; then %v", n, x.Get("a"))
	}
	x.View(func(v View) {
		if got := slices.Collect(v.At("two").Listing(settings)); !slices.Equal(got, []string{"a"}) {
			t.Errorf("at another destination: %v list it", got)
		}
	})
}
