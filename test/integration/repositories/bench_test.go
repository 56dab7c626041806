package repositories

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// BenchmarkImport is a catalogue of 200 packages, each with a tag: 400 revisions on a real API
// server.
func BenchmarkImport(b *testing.B) {
	const packages = 200
	e := newEnvironment(b)
	r := testgit.New(b)
	for i := range packages {
		r.Package(fmt.Sprintf("group%d/package%d", i%10, i), "text")
		for j := range 10 {
			r.Files[fmt.Sprintf("group%d/package%d/object%d.yaml", i%10, i, j)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c%d-%d\n", i, j)
		}
	}
	commit := r.Commit("main", "x")
	for i := range packages {
		r.Tag(fmt.Sprintf("group%d/package%d/v1", i%10, i), commit)
	}
	s := testgit.Serve(b)
	e.run(b)
	n := 0
	for b.Loop() {
		n++
		name := fmt.Sprint("up", n)
		e.create(b, name, gitSpec(s.URL(r), ""))
		testenv.Eventually(b, 2*time.Minute, func() (bool, string) {
			list, err := e.stored().List(b.Context(), metav1.ListOptions{FieldSelector: "spec.repository=" + name})
			if err != nil {
				b.Fatal(err)
			}
			return len(list.Items) == 2*packages, "not all are there"
		})
	}
}
