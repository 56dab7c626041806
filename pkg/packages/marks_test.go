package packages

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/merge"
)

// Each clone has its own Kptfile, and the comments that it would have without being remembered.
func TestMarks(t *testing.T) {
	var m marks
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			files := kptpkg.Files{"Kptfile": fmt.Sprintf("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p%d\n", i), "a.yaml": object, "sub/b.yaml": object}
			if diff := cmp.Diff(merge.AddMergeComments(files), m.add("sha256:1", files)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	wg.Wait()
}

// What is remembered is bounded, and what is forgotten is found again.
func TestMarksAreBounded(t *testing.T) {
	var m marks
	files := func(i int) kptpkg.Files {
		return kptpkg.Files{"Kptfile": "", "a.txt": strings.Repeat("x", 3<<20), "b.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: n%d\n", i)}
	}
	for round := range 2 {
		for i := range 10 {
			got := m.add(fmt.Sprint(i), files(i))
			if want := merge.AddMergeComments(files(i)); got.Digest() != want.Digest() {
				t.Errorf("round %d, %d: (-want +got)\n%s", round, i, cmp.Diff(want["b.yaml"], got["b.yaml"]))
			}
			size := 0
			for _, f := range m.known {
				size += f.Size()
			}
			if size != m.size || size > marksSize || len(m.order) != len(m.known) {
				t.Errorf("%d bytes in %d packages, counted %d in %d", size, len(m.known), m.size, len(m.order))
			}
		}
	}
	m.add("large", kptpkg.Files{"Kptfile": "", "a": strings.Repeat("x", marksSize/2+1)})
	if _, known := m.known["large"]; known {
		t.Error("half of what may be remembered is of one package")
	}
}
