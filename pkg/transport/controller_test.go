package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/writer"
)

// wds is a WDS that holds Bindings and a ConfigMap.
type wds struct {
	bindings, configMaps *cachetesting.FakeControllerSource
	config               *rest.Config
	// statuses are those that were written, and "gone" for a Binding that is.
	statuses chan string
}

func newWDS(t *testing.T) *wds {
	t.Helper()
	w := &wds{bindings: cachetesting.NewFakeControllerSource(), configMaps: cachetesting.NewFakeControllerSource(), statuses: make(chan string, 100)}
	w.configMaps.Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "web", UID: "settings"}})
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.config = &rest.Config{Host: server.URL}
	return w
}

// ServeHTTP answers reads of ConfigMaps, and patches of the finalizers of Bindings, as far as they
// say which there are.
func (w *wds) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	out.Header().Set("Content-Type", "application/json")
	segments := strings.Split(in.URL.Path, "/")
	name := segments[len(segments)-1]
	var answer any
	if in.Method == http.MethodGet {
		answer = map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": segments[4], "uid": name, "resourceVersion": "1"},
		}
	} else {
		var patch struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
			Status   json.RawMessage   `json:"status"`
		}
		if err := json.NewDecoder(in.Body).Decode(&patch); err != nil {
			panic(err)
		}
		if patch.Status != nil {
			w.statuses <- string(patch.Status)
		} else {
			for _, obj := range w.list() {
				if b := obj.DeepCopy(); b.Name == name {
					b.Finalizers = patch.Metadata.Finalizers
					if b.DeletionTimestamp != nil && len(b.Finalizers) == 0 {
						w.bindings.Delete(b)
						w.statuses <- "gone"
					} else {
						w.bindings.Modify(b)
					}
				}
			}
		}
		answer = metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}}
	}
	if err := json.NewEncoder(out).Encode(answer); err != nil {
		panic(err)
	}
}

func (w *wds) list() []*controlv1alpha1.Binding {
	list, err := w.bindings.List(metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	var found []*controlv1alpha1.Binding
	items := list.(*corev1.List).Items //nolint:forcetypeassert // it makes no other
	for i := range items {
		found = append(found, items[i].Object.(*controlv1alpha1.Binding)) //nolint:forcetypeassert // nothing else is put into it
	}
	return found
}

// controller returns a Controller on the WDS, not running.
func (w *wds) controller(t *testing.T, itses ...plugin.ITS) *Controller {
	t.Helper()
	objects, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	versions, err := metadata.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := writer.New(w.config, "wds", "test")
	if err != nil {
		t.Fatal(err)
	}
	informer := func(source cache.ListerWatcher, of runtime.Object) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(source, of, 0, cache.Indexers{})
	}
	if len(itses) == 0 {
		itses = []plugin.ITS{{Name: "its"}}
	}
	c, err := New(Config{
		WDS: placement.WDS{
			Bindings:         informer(w.bindings, &controlv1alpha1.Binding{}),
			CustomTransforms: informer(cachetesting.NewFakeControllerSource(), &controlv1alpha1.CustomTransform{}),
			Metadata: func(dynamicinformer.Resource) cache.SharedIndexInformer {
				return informer(w.configMaps, &metav1.PartialObjectMetadata{})
			},
			Objects: objects, Versions: versions, Writer: writer,
		},
		ITSes: itses, Limits: packing.Limits{Count: 10, Bytes: 10000}, Concurrency: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fakePlugin is a Plugin whose writes wait for the test. The test reports the works that it
// creates.
type fakePlugin struct {
	handler chan plugin.Handler
	began   chan *plan.Action
	proceed chan error
}

func newPlugin() *fakePlugin {
	return &fakePlugin{handler: make(chan plugin.Handler, 1), began: make(chan *plan.Action), proceed: make(chan error)}
}

func (p *fakePlugin) Run(ctx context.Context, handler plugin.Handler) error {
	handler.OnDestination("edge", &plugin.Destination{Accepted: true})
	handler.OnSynced()
	p.handler <- handler
	<-ctx.Done()
	return nil
}

func (p *fakePlugin) Restored() string { return "" }

func (p *fakePlugin) Works(context.Context) (map[types.UID]int64, error) { return nil, nil }

func (p *fakePlugin) Content(context.Context, *plan.Work, objref.Ref) (transform.Object, error) {
	return transform.Object{}, errors.ErrUnsupported
}

func (p *fakePlugin) Do(ctx context.Context, _ plugin.Origin, action *plan.Action) (plugin.Receipt, error) {
	for _, step := range []func() error{
		func() error {
			select {
			case p.began <- action:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		func() error {
			select {
			case err := <-p.proceed:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	} {
		if err := step(); err != nil {
			return plugin.Receipt{}, err
		}
	}
	return plugin.Receipt{UID: "work", Generation: 1}, nil
}

// TestDeletionWaitsForWritesUnderWay: a work that is being created counts, although the Plugin has
// not reported it yet.
func TestDeletionWaitsForWritesUnderWay(t *testing.T) {
	created := &plan.Work{Mailbox: "edge", UID: "work", Generation: 1, Binding: "b", BindingUID: "uid", Wave: packing.WaveSecond}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for name, tc := range map[string]struct {
		answer error
		comes  bool
	}{"Created": {nil, true}, "NoAnswerButCreated": {errors.New("no answer"), true}, "Refused": {forbidden, false}} {
		t.Run(name, func(t *testing.T) {
			w, p := newWDS(t), newPlugin()
			c := w.controller(t, plugin.ITS{Name: "its", Connect: func(context.Context) (plugin.Plugin, error) { return p, nil }})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			leading := make(chan struct{})
			close(leading)
			running.Go(func() { _ = c.Run(ctx, leading) })
			w.bindings.Add(bindingOf("b", "edge", "settings"))
			handler, action := <-p.handler, <-p.began
			if action.Verb != plan.Create {
				t.Fatalf("the first write is %s", action)
			}
			deleted := w.list()[0].DeepCopy()
			deleted.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
			w.bindings.Modify(deleted)
			if status := <-w.statuses; !strings.Contains(status, "waiting until the works are removed from: edge") {
				t.Fatalf("while a work is being created: %s", status)
			}
			p.proceed <- tc.answer
			if tc.comes {
				created.Name = action.Name
				handler.OnWork(nil, created)
				if action = <-p.began; action.Verb != plan.Delete {
					t.Errorf("then comes %s", action)
				}
				p.proceed <- nil
				handler.OnWork(created, nil)
			}
			if status := <-w.statuses; status != "gone" {
				t.Errorf("at the end: %s", status)
			}
		})
	}
}

func bindingOf(name, cluster, configMap string) *controlv1alpha1.Binding {
	b := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Generation: 1}}
	b.Spec.Destinations = []controlv1alpha1.Destination{{ClusterID: cluster}}
	b.Spec.Workload.NamespaceScope = []controlv1alpha1.NamespaceScopeDownsyncClause{{
		NamespaceScopeDownsyncObject: controlv1alpha1.NamespaceScopeDownsyncObject{
			Version: "v1", Resource: "configmaps", Namespace: "web", Name: configMap, ResourceVersion: "1",
		},
	}}
	return b
}
