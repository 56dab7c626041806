package transform_test

import (
	"fmt"
	"strings"
	"testing"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// BenchmarkApplySized transforms one object of so many bytes, in fields of a hundred: linear in its
// size, whatever else is placed.
func BenchmarkApplySized(b *testing.B) {
	for _, bytes := range []int{1e2, 1e3, 1e4, 1e5} {
		var data strings.Builder
		for i := range bytes / 100 {
			fmt.Fprintf(&data, `,"field-%d":"%s"`, i, strings.Repeat("x", 85))
		}
		raw := []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"web"},"data":{"a":"b"` + data.String() + `}}`)
		ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "settings"}
		pipeline := transform.Standard()
		b.Run(fmt.Sprint(bytes), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				var in map[string]any
				if err := kjson.Unmarshal(raw, &in); err != nil {
					b.Fatal(err)
				}
				if _, err := pipeline.Apply(ref, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
