package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
)

// BenchmarkRender runs four mutators, each of which changes every object, and a validator. The time
// per resource should not depend on how many there are. Again is one whose files were seen before:
//
//	go test -run '^$' -bench Render -count 6 ./pkg/core/packages/kpt/render | benchstat -
func BenchmarkRender(b *testing.B) {
	pipeline := kptfile("mutators:\n- image: set-namespace:v0.4\n  configMap: {namespace: n}\n- image: set-labels:v0.2\n  configMap: {a: b}\n- image: set-image:v0.1\n  configMap: {name: nginx, newTag: '2'}\n" +
		"- image: apply-setters:v0.2\n  configMap: {replicas: '3'}\nvalidators:\n- image: kubeconform:v0.1")
	for _, layout := range []struct {
		name    string
		perFile int
		memory  *render.Cache
	}{{"OneFileEach", 1, nil}, {"OneFile", 1 << 30, nil}, {"Again", 1, &render.Cache{}}} {
		for _, n := range []int{10, 100, 1000} {
			files := kpt.Files{"Kptfile": pipeline}
			for i := range n {
				text := fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d%d\nspec:\n  replicas: 1 # kpt-set: ${replicas}\n  selector:\n    matchLabels:\n      app: x\n  template:\n    metadata:\n      labels:\n        app: x\n    spec:\n      containers:\n      - name: c\n        image: nginx:1\n        ports:\n        - containerPort: 80\n", i)
				path := fmt.Sprintf("d%d.yaml", i/layout.perFile)
				if files[path] != "" {
					text = "---\n" + text
				}
				files[path] += text
			}
			b.Run(fmt.Sprintf("%s/%d", layout.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					got, err := layout.memory.Render(files, functions.Run)
					if err != nil || !strings.Contains(got.Files["d0.yaml"], "image: nginx:2") {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/resource")
			})
		}
	}
}
