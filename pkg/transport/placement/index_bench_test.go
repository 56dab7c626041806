package placement

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// BenchmarkNear finds the Bindings that deliver the objects of one package to one cluster, where
// each of n clusters has a package of its own with the same 50 objects. It should not depend on n.
func BenchmarkNear(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4} {
		x := NewIndex(cache.NewIndexer(cache.MetaNamespaceKeyFunc, Indexers()))
		objects := map[objref.Ref]plan.Object{}
		for i := range 50 {
			ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: fmt.Sprint(i)}
			objects[ref] = plan.Object{}
		}
		for i := range n {
			name := fmt.Sprint(i)
			x.List(name, maps.Keys(objects))
			x.Publish(name, &Placement{Name: name, Objects: objects, Destinations: map[string]struct{}{"cluster" + name: {}}})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				found := 0
				x.View(func(v View) {
					for ref := range objects {
						for range v.At("cluster7").Listing(ref) {
							found++
						}
					}
				})
				if found != len(objects) {
					b.Fatalf("%d found, want %d", found, len(objects))
				}
			}
		})
	}
}
