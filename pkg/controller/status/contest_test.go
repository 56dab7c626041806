package status

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
)

var (
	things = dynamicinformer.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}}
	one    = objref.New(things.GroupResource(), "web", "one")
)

// world is a WDS with one object, whose status is asked for and reported, and somebody who writes
// it too.
type world struct {
	mu          sync.Mutex
	object      *unstructured.Unstructured
	version     int
	status      map[string]any // what is reported
	writes      int
	statusError string
	// meddle is called after each write of ours, with the mutex held.
	meddle     func()
	controller *Controller
}

func (w *world) Requests(objref.Ref) match.Requests {
	return match.Requests{Known: true, Singleton: true, SingletonClusters: []string{"c1"}}
}

func (w *world) Get(objref.Ref) (metav1.Object, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.object.DeepCopy(), true
}

func (w *world) Resource(schema.GroupResource) (dynamicinformer.Resource, bool) { return things, true }
func (w *world) Synced(schema.GroupResource) bool                               { return true }

func (w *world) SetStatusError(_ objref.Ref, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statusError = text
}

// reportsOf implements Reports.
type reportsOf struct{ *world }

func (r reportsOf) Get(objref.Ref, types.UID, string) (*statusreports.Report, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &statusreports.Report{Report: corestatus.Report{Status: r.status}}, true
}

func (w *world) patched(patch []byte) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(w.object)
	if err != nil {
		return nil, err
	}
	var of struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(patch, &of); err != nil {
		return nil, err
	}
	if of.Metadata.ResourceVersion != w.object.GetResourceVersion() {
		return nil, apierrors.NewConflict(things.GroupResource(), "one", errors.New("it changed"))
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	if err := changed.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	return changed, nil
}

// store is called with the mutex held.
func (w *world) store(changed *unstructured.Unstructured, version int, manager string) {
	before := w.object
	w.version = version
	changed.SetResourceVersion(strconv.Itoa(w.version))
	changed.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status", Time: &metav1.Time{Time: time.Now()}}})
	w.object = changed
	go w.controller.OnChange(things, before.DeepCopy(), changed.DeepCopy())
}

// set is somebody else who writes the status.
func (w *world) set(status map[string]any, version int) {
	changed := w.object.DeepCopy()
	changed.Object["status"] = status
	w.store(changed, version, "kube-controller-manager")
}

func (w *world) Patch(_ context.Context, _ writer.Target, _ types.PatchType, patch []byte, _ string) (*metav1.PartialObjectMetadata, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed, err := w.patched(patch)
	if err != nil {
		return nil, err
	}
	w.writes++
	w.store(changed, w.version+1, "binding-controller")
	answer := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: changed.GetUID(), ResourceVersion: changed.GetResourceVersion()}}
	if w.meddle != nil {
		w.meddle()
	}
	return answer, nil
}

func (w *world) number() any {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, _, _ := unstructured.NestedInt64(w.object.Object, "status", "n")
	return n
}

// newWorld starts a controller that has returned {n: 1}. It must be called in a bubble.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{version: 100, status: map[string]any{"n": int64(1)}}
	w.object = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "one", "namespace": "web", "uid": "u", "resourceVersion": "100"},
	}}
	reads := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	reads.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return true, w.object.DeepCopy(), nil
	})
	reads.PrependReactor("patch", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		patch, _ := action.(clienttesting.PatchAction)
		changed, err := w.patched(patch.GetPatch())
		return true, changed, err
	})
	var err error
	w.controller, err = New(Config{Reports: reportsOf{w}, Requests: w, Objects: w, Client: reads, Writer: w, Versions: noVersions{}, StatusErrors: w, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.controller.Run(ctx, 2) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.controller.OnChanges(match.Changes{Requests: []objref.Ref{one}})
	synctest.Wait()
	if got := w.number(); got != int64(1) {
		t.Fatalf("at first there is %v", got)
	}
	return w
}

// TestContest: an object that another client restores again and again is restored less and less
// often, and the user is notified as long as it lasts.
func TestContest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const many = 2000
		w.mu.Lock()
		before := w.writes
		fight := func() {
			if n, _, _ := unstructured.NestedInt64(w.object.Object, "status", "n"); n != 9 && w.writes < many {
				w.set(map[string]any{"n": int64(9)}, w.version+1)
			}
		}
		w.meddle = fight
		fight()
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.mu.Lock()
		if writes := w.writes - before; writes < patient || writes > 40 {
			t.Errorf("%d writes in ten minutes", writes)
		}
		if want := `also written by "kube-controller-manager"`; !strings.Contains(w.statusError, want) {
			t.Errorf("the status error is %q, want %q", w.statusError, want)
		}
		w.meddle = nil
		w.mu.Unlock()

		time.Sleep(2 * lastPause)
		synctest.Wait()
		if got := w.number(); got != int64(1) {
			t.Errorf("when the other one has given up there is %v", got)
		}
		time.Sleep(2 * peace)
		synctest.Wait()
		w.mu.Lock()
		if w.statusError != "" {
			t.Errorf("after the end the status error is %q", w.statusError)
		}
		w.set(map[string]any{"n": int64(9)}, w.version+1)
		w.mu.Unlock()
		synctest.Wait() // no time passes
		if got := w.number(); got != int64(1) {
			t.Errorf("who overwrites it once, long after, is not put right at once: there is %v", got)
		}
	})
}

// TestRestoredWDS: a WDS that is restored from a backup holds an older status, under an older
// version than was ever seen.
func TestRestoredWDS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.mu.Lock()
		w.set(map[string]any{"n": int64(7)}, 50)
		w.mu.Unlock()
		synctest.Wait()
		if got := w.number(); got != int64(1) {
			t.Errorf("after it was restored there is %v", got)
		}
	})
}
