// Package content tests against a real API server how the files of packages are kept.
package content

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}}) }

type environment struct {
	store  *content.Store
	chunks dynamic.NamespaceableResourceInterface
	clock  *clocktesting.FakePassiveClock
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../../config/crd/store.starling.io_contentchunks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := client.Resource(crds).Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := spaces.WaitForResources(t.Context(), &spaces.Space{Name: "wds1", Config: config}, storev1alpha1.ContentChunks); err != nil {
		t.Fatal(err)
	}
	e := &environment{chunks: client.Resource(storev1alpha1.ContentChunks), clock: clocktesting.NewFakePassiveClock(time.Now())}
	e.store, err = content.New(config, e.clock)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func files(name string, bytes int) kpt.Files {
	rnd := rand.New(rand.NewPCG(uint64(bytes), uint64(len(name))))
	raw := make([]byte, bytes/8*8)
	for i := 0; i < len(raw); i += 8 {
		binary.NativeEndian.PutUint64(raw[i:], rnd.Uint64())
	}
	return kpt.Files{"Kptfile": name, "noise": base64.StdEncoding.EncodeToString(raw)}
}

// of returns a function that says that these digests are named.
func of(digests ...string) func(context.Context) (map[string]bool, error) {
	return func(context.Context) (map[string]bool, error) {
		named := map[string]bool{}
		for _, digest := range digests {
			named[digest] = true
		}
		return named, nil
	}
}

func (e *environment) put(t *testing.T, f kpt.Files) string {
	t.Helper()
	digest, err := e.store.Put(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func (e *environment) collect(t *testing.T, digests ...string) int {
	t.Helper()
	n, err := e.store.Collect(t.Context(), of(digests...))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (e *environment) there(t *testing.T, digest string) bool {
	t.Helper()
	_, err := e.store.Get(t.Context(), digest)
	if err != nil && !errors.Is(err, content.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// TestContentIsKept in chunks that never change, once for all who put it, at the same time too.
func TestContentIsKept(t *testing.T) {
	e := newEnvironment(t)
	large := files(t.Name(), 3<<20)
	var putting sync.WaitGroup
	for range 4 {
		putting.Go(func() {
			if digest, err := e.store.Put(t.Context(), large); err != nil || digest != large.Digest() {
				t.Errorf("put: %s, %v", digest, err)
			}
		})
	}
	putting.Wait()
	got, err := e.store.Get(t.Context(), large.Digest())
	if err != nil || !maps.Equal(large, got) {
		t.Errorf("other files came back: %v", err)
	}
	list, err := e.chunks.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	parts := 0
	for i := range list.Items {
		if list.Items[i].Object["digest"] == large.Digest() {
			parts++
			_, err := e.chunks.Patch(t.Context(), list.Items[i].GetName(), types.MergePatchType, []byte(`{"data":"eA=="}`), metav1.PatchOptions{})
			if err == nil || !strings.Contains(err.Error(), "content never changes") {
				t.Errorf("a chunk was changed: %v", err)
			}
		}
	}
	if parts < 3 {
		t.Errorf("%d parts", parts)
	}
	if _, err := e.store.Get(t.Context(), (kpt.Files{"no": "such"}).Digest()); !errors.Is(err, content.ErrNotFound) {
		t.Errorf("what was never put: %v", err)
	}
}

// TestCollect: what nothing names goes after a while, and only that; what is put again in between
// stays.
func TestCollect(t *testing.T) {
	e := newEnvironment(t)
	named, loose, again := e.put(t, files("named", 2<<20)), e.put(t, files("loose", 2<<20)), e.put(t, files("again", 10))
	e.collect(t, named)
	if !e.there(t, loose) || !e.there(t, again) {
		t.Fatal("what was just put is gone")
	}
	e.clock.SetTime(e.clock.Now().Add(content.Grace + time.Minute))
	if _, err := e.store.Collect(t.Context(), func(context.Context) (map[string]bool, error) { return nil, errors.New("not now") }); err == nil || !e.there(t, loose) {
		t.Errorf("collected without knowing what is named: %v", err)
	}
	e.put(t, files("again", 10))
	// Put and named while the collector works, after it has listed the content.
	n, err := e.store.Collect(t.Context(), func(ctx context.Context) (map[string]bool, error) {
		e.put(t, files("loose", 2<<20))
		return of(named)(ctx)
	})
	if err != nil || !e.there(t, loose) {
		t.Errorf("what was put again meanwhile is gone: %d deleted, %v", n, err)
	}
	if !e.there(t, named) || !e.there(t, again) {
		t.Error("what is named, or was put again, is gone")
	}
	e.clock.SetTime(e.clock.Now().Add(content.Grace + time.Minute))
	if n := e.collect(t, named); n < 4 || e.there(t, loose) || e.there(t, again) || !e.there(t, named) {
		t.Errorf("%d parts collected; loose %t, again %t, named %t", n, e.there(t, loose), e.there(t, again), e.there(t, named))
	}
	if e.put(t, files("loose", 2<<20)) != loose || !e.there(t, loose) {
		t.Error("what was collected cannot be put again")
	}
}

// TestCollectAndPut at the same time, over and over: what was put is there.
func TestCollectAndPut(t *testing.T) {
	e := newEnvironment(t)
	ctx, cancel := context.WithCancel(t.Context())
	var collecting sync.WaitGroup
	collecting.Go(func() {
		for ctx.Err() == nil {
			if _, err := e.store.Collect(ctx, of()); err != nil && ctx.Err() == nil {
				t.Errorf("collect: %v", err)
			}
		}
	})
	for i := range 60 {
		e.clock.SetTime(e.clock.Now().Add(content.Grace + time.Minute)) // all that is there is old
		f := files(fmt.Sprint("content-", i%3), 100)
		if digest := e.put(t, f); !e.there(t, digest) {
			t.Fatalf("round %d: what was just put is gone", i)
		}
	}
	cancel()
	collecting.Wait()
}
