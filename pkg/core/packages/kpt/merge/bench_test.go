package merge_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
)

// resource is one of a size that is usual.
func resource(i, replicas int, image string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%d
  labels:
    app: web
    # who runs it
    team: a
spec:
  replicas: %d # by hand
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
      - name: web
        image: %s
        ports:
        - containerPort: 80
          name: http
        resources:
          limits:
            cpu: 100m
            memory: 128Mi
      - name: sidecar
        image: log:v1
        env:
        - name: LEVEL
          value: info
`, i, replicas, image)
}

// BenchmarkMerge merges packages of which every object is changed on both sides, which is the most
// that there is to do. The time per resource should not depend on how many there are:
//
//	go test -run '^$' -bench Merge -count 6 ./pkg/core/packages/kpt/merge | benchstat -
func BenchmarkMerge(b *testing.B) {
	for _, layout := range []struct {
		name    string
		perFile int
	}{{"OneFileEach", 1}, {"OneFile", 1 << 30}} {
		for _, n := range []int{10, 100, 1000} {
			original, updated, local := files{}, files{}, files{}
			for i := range n {
				path := fmt.Sprintf("%d.yaml", i/layout.perFile)
				for f, text := range map[*files]string{&original: resource(i, 1, "a:1"), &updated: resource(i, 1, "a:2"), &local: resource(i, 3, "a:1")} {
					if (*f)[path] != "" {
						text = "---\n" + text
					}
					(*f)[path] += text
				}
			}
			local = merge.AddMergeComments(local)
			b.Run(fmt.Sprintf("%s/%d", layout.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					got, err := merge.Merge(merge.ResourceMerge, original, updated, local, nil)
					if err != nil || got.Conflicts != nil || !strings.Contains(got.Files["0.yaml"], "image: a:2") {
						b.Fatal(err, got.Conflicts)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/resource")
			})
		}
	}
}

// BenchmarkAddMergeComments marks objects that have no comment yet.
func BenchmarkAddMergeComments(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		input := files{}
		for i := range n {
			input[fmt.Sprintf("%d.yaml", i)] = resource(i, 1, "a:1")
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if got := merge.AddMergeComments(input); got["0.yaml"] == input["0.yaml"] {
					b.Fatal("nothing was marked")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/resource")
		})
	}
}
