package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/pkg/packages/boundedcache"
)

// Each clone has its own Kptfile, and the same comments as without the cache.
func TestMergeCommentCache(t *testing.T) {
	m := mergeCommentCache{boundedcache.New[string, kpt.Files](mergeCommentCacheSize)}
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			files := kpt.Files{"Kptfile": fmt.Sprintf("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p%d\n", i), "a.yaml": object, "sub/b.yaml": object}
			if diff := cmp.Diff(merge.AddMergeComments(files), m.add("sha256:1", files)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	wg.Wait()
}

// The cache is bounded, and evicted packages are computed again.
func TestMergeCommentCacheIsBounded(t *testing.T) {
	m := mergeCommentCache{boundedcache.New[string, kpt.Files](mergeCommentCacheSize)}
	files := func(i int) kpt.Files {
		return kpt.Files{"Kptfile": "", "a.txt": strings.Repeat("x", 3<<20), "b.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: n%d\n", i)}
	}
	for round := range 2 {
		for i := range 10 {
			got := m.add(fmt.Sprint(i), files(i))
			if want := merge.AddMergeComments(files(i)); got.Digest() != want.Digest() {
				t.Errorf("round %d, %d: (-want +got)\n%s", round, i, cmp.Diff(want["b.yaml"], got["b.yaml"]))
			}
			if m.Len() > 5 { // of 3 MiB each
				t.Errorf("%d packages are cached", m.Len())
			}
		}
	}
	m.add("large", kpt.Files{"Kptfile": "", "a": strings.Repeat("x", mergeCommentCacheSize/2+1)})
	if _, known := m.Get("large"); known {
		t.Error("half of the cache is one package")
	}
}
