package plan_test

import (
	"fmt"
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// The plan of one destination costs its objects, whatever changes: what is made once for all
// destinations, NewDesired, and what each of them costs, are apart. Compare with
// bin/tools/benchstat.

func manyObjects(n int) []plan.Object {
	objects := make([]plan.Object, n)
	for i := range objects {
		objects[i] = object(objref.Ref{Resource: "configmaps", Namespace: "web", Name: fmt.Sprint(i)}, "content")
	}
	return objects
}

var benchLimits = packing.Limits{Count: 500, Bytes: 512000}

func BenchmarkNewDesired(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4, 1e5} {
		objects := manyObjects(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				plan.NewDesired(objects, benchLimits)
			}
		})
	}
}

func BenchmarkBuildPlace(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4, 1e5} {
		desired := plan.NewDesired(manyObjects(n), benchLimits)
		now := (&mailbox{works: map[string]*plan.Work{}}).current()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if p := plan.Build(desired, now); len(p.Actions) == 0 {
					b.Fatal("nothing is placed")
				}
			}
		})
	}
}

func BenchmarkBuildUnchanged(b *testing.B) {
	for _, n := range []int{1e2, 1e3, 1e4, 1e5} {
		desired := plan.NewDesired(manyObjects(n), benchLimits)
		m := &mailbox{works: map[string]*plan.Work{}}
		p := plan.Build(desired, m.current())
		for i := range p.Actions {
			m.do(&testing.T{}, &p.Actions[i])
		}
		now := m.current()
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if p := plan.Build(desired, now); len(p.Actions) != 0 {
					b.Fatalf("%d actions, want none", len(p.Actions))
				}
			}
		})
	}
}
