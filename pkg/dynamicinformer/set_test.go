package dynamicinformer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	watchapi "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/starlinghq/starling/pkg/core/objref"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a Handler that notes its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf(format, args...))
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

func (r *recorder) OnChange(resource Resource, before, after metav1.Object) {
	switch {
	case before == nil:
		r.note("%s added %s", resource.Resource, after.GetName())
	case after == nil:
		r.note("%s deleted %s", resource.Resource, before.GetName())
	default:
		r.note("%s changed %s", resource.Resource, after.GetName())
	}
}
func (r *recorder) OnSynced(resource Resource)  { r.note("%s synced", resource.Resource) }
func (r *recorder) OnStopped(resource Resource) { r.note("%s stopped", resource.Resource) }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// space serves objects by resource and version.
type space map[schema.GroupVersionResource]*fcache.FakeControllerSource

func (s space) informer(r Resource) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(s[r.GroupVersionResource], &corev1.ConfigMap{}, 0, cache.Indexers{})
}

func TestSetFollowsItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := resource("", "v1", "as", "A"), resource("", "v1", "bs", "B")
		served := space{a.GroupVersionResource: fcache.NewFakeControllerSource(), b.GroupVersionResource: fcache.NewFakeControllerSource()}
		served[a.GroupVersionResource].Add(configMap("one"))
		wanted, handler := NewWanted(), &recorder{}
		set := newSet(t, wanted, served, handler)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		running.Go(func() { _ = set.Run(ctx) })

		wanted.Set(byGroupResource(a))
		waitForSync(t)
		expect(t, "start", handler, "as added one", "as synced")
		if _, ok := set.Get(objref.Ref{Resource: "as", Namespace: "ns", Name: "one"}); !ok {
			t.Error("Get: an object of a watched resource is not known")
		}

		served[a.GroupVersionResource].Modify(configMap("one"))
		wanted.Set(byGroupResource(a, b))
		waitForSync(t)
		expect(t, "another resource", handler, "as changed one", "bs synced")

		served[a.GroupVersionResource].Delete(configMap("one"))
		waitForSync(t)
		expect(t, "delete", handler, "as deleted one")

		wanted.Set(byGroupResource(b))
		waitForSync(t)
		expect(t, "resource dropped", handler, "as stopped")
		if set.Synced(a.GroupResource()) {
			t.Error("Synced: true for a resource that is not watched")
		}

		cancel()
		running.Wait()
		served.shutdown()
		expect(t, "end: nothing is known to be gone", handler)
	})
}

func TestSetKeepsObjectsOverAChangeOfVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v1, v2 := resource("example.com", "v1", "widgets", "Widget"), resource("example.com", "v2", "widgets", "Widget")
		served := space{v1.GroupVersionResource: fcache.NewFakeControllerSource(), v2.GroupVersionResource: fcache.NewFakeControllerSource()}
		served[v1.GroupVersionResource].Add(configMap("stays"))
		served[v1.GroupVersionResource].Add(configMap("goes"))
		served[v2.GroupVersionResource].Add(configMap("stays"))
		wanted, handler := NewWanted(), &recorder{}
		set := newSet(t, wanted, served, handler)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = set.Run(ctx) })
		wanted.Set(byGroupResource(v1))
		waitForSync(t)
		handler.take()

		wanted.Set(byGroupResource(v2))
		waitForSync(t)
		expect(t, "another version", handler, "widgets added stays", "widgets deleted goes", "widgets synced")
		cancel()
		running.Wait()
		served.shutdown()
	})
}

// shutdown ends the goroutines of the sources.
func (s space) shutdown() {
	for _, source := range s {
		source.Shutdown()
	}
}

func newSet(t *testing.T, source Source, served space, handler Handler) *Set {
	t.Helper()
	set, err := New(Config{Source: source, Informer: served.informer, Handler: handler})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// waitForSync lets the time of the bubble pass until a started watch was asked whether it has
// synced.
func waitForSync(t *testing.T) {
	t.Helper()
	for range 3 {
		synctest.Wait()
		<-time.After(2 * syncPoll) // the clock of the bubble
	}
	synctest.Wait()
}

// expect compares the calls of each resource, in their order; those of different resources come in
// any.
func expect(t *testing.T, step string, handler *recorder, want ...string) {
	t.Helper()
	byResource := func(a, b string) int {
		resource := func(call string) string { name, _, _ := strings.Cut(call, " "); return name }
		return strings.Compare(resource(a), resource(b))
	}
	got := handler.take()
	slices.SortStableFunc(want, byResource)
	slices.SortStableFunc(got, byResource)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: calls (-want +got):\n%s", step, diff)
	}
}

func TestUnsyncedResourcesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := NewWanted()
		set, err := New(Config{Source: wanted, Handler: &recorder{}, Informer: func(Resource) cache.SharedIndexInformer {
			return cache.NewSharedIndexInformer(&cache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errors.New("not now") },
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watchapi.Interface, error) {
					return nil, errors.New("not now")
				},
			}, &corev1.ConfigMap{}, 0, cache.Indexers{})
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = set.Run(ctx) })
		widgets := Resource{GroupVersionResource: schema.GroupVersionResource{Group: "never.example.com", Version: "v1", Resource: "widgets"}}
		wanted.Set(byGroupResource(widgets))
		waitForSync(t)
		expectCount := func(want int) {
			t.Helper()
			families, err := legacyregistry.DefaultGatherer.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for _, family := range families {
				if family.GetName() == "starling_unsynced_resources" {
					got = len(family.GetMetric())
				}
			}
			if got != want {
				t.Errorf("%d unsynced resources, want %d", got, want)
			}
		}
		expectCount(1)
		wanted.Set(byGroupResource())
		waitForSync(t)
		expectCount(0)
		cancel()
		running.Wait()
	})
}
