package packing_test

import (
	"fmt"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packing"
)

// BenchmarkPackOneMore packs one object beside many that have their place: linear in those, since
// each work's load is added up.
func BenchmarkPackOneMore(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4, 1e5} {
		items := make([]packing.Item, 0, n+1)
		for i := range n {
			items = append(items, packing.Item{Ref: configMap(fmt.Sprint(i)), Size: 1000})
		}
		limits := packing.Limits{Count: 500, Bytes: 512000}
		placement := packing.Pack(nil, items, limits, name)
		slots := map[string]int{}
		var works []packing.Work
		for _, item := range items {
			home := placement[item.Ref]
			at, ok := slots[home]
			if !ok {
				at = len(works)
				slots[home] = at
				works = append(works, packing.Work{Name: home, Wave: packing.WaveSecond})
			}
			works[at].Slots = append(works[at].Slots, packing.Slot{Ref: item.Ref, Size: item.Size, Current: true})
		}
		items = append(items, packing.Item{Ref: configMap("more"), Size: 1000})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if p := packing.Pack(works, items, limits, name); len(p) != n+1 {
					b.Fatalf("%d objects have a home, want %d", len(p), n+1)
				}
			}
		})
	}
}
