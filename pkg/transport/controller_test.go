package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/write"
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

// ServeHTTP answers reads of ConfigMaps, and patches of the finalizers of Bindings, as far as they say which there are.
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
func (w *wds) controller(t *testing.T, spaces ...Space) *Controller {
	t.Helper()
	objects, err := dynamic.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := write.New(w.config, "wds", "test")
	if err != nil {
		t.Fatal(err)
	}
	informer := func(source cache.ListerWatcher, of runtime.Object) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(source, of, 0, cache.Indexers{})
	}
	if len(spaces) == 0 {
		spaces = []Space{{Name: "its"}}
	}
	c, err := New(Config{
		Bindings:         informer(w.bindings, &controlv1alpha1.Binding{}),
		CustomTransforms: informer(cachetesting.NewFakeControllerSource(), &controlv1alpha1.CustomTransform{}),
		Metadata: func(dynwatch.Resource) cache.SharedIndexInformer {
			return informer(w.configMaps, &metav1.PartialObjectMetadata{})
		},
		Objects: objects, WDS: writer, Spaces: spaces, Pipeline: transform.Standard(),
		Limits: packing.Limits{Count: 10, Bytes: 10000}, Concurrency: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func watching(c *Controller) []string {
	var watched []string
	for gr, resource := range c.wanted.Resources() {
		watched = append(watched, resource.Version+" "+gr.String())
	}
	slices.Sort(watched)
	return watched
}

func needing(name string, resources ...schema.GroupVersionResource) *placement {
	p := &placement{name: name, resources: map[schema.GroupResource]dynwatch.Resource{}}
	for _, r := range resources {
		p.resources[r.GroupResource()] = dynwatch.Resource{GroupVersionResource: r, Namespaced: true}
	}
	return p
}

// TestWatchesWhatBindingsNeed: also while several are gathered, and no longer than they are there.
func TestWatchesWhatBindingsNeed(t *testing.T) {
	c := newWDS(t).controller(t)
	one, two := needing("one", schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}), needing("two", schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, watching(c)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	c.watchResources(one)
	c.watchResources(two)
	check("both are being gathered", "v1 configmaps", "v1 secrets")
	c.publish("one", one)
	c.publish("two", two)
	check("both are there", "v1 configmaps", "v1 secrets")
	next := needing("one", schema.GroupVersionResource{Version: "v1", Resource: "services"})
	c.watchResources(next)
	check("one is gathered anew", "v1 configmaps", "v1 secrets", "v1 services")
	c.publish("one", next)
	check("one turned to something else", "v1 secrets", "v1 services")
	c.publish("one", &placement{name: "one", deleting: true})
	check("one is being deleted", "v1 secrets")
	c.publish("two", nil)
	check("nothing is there")
}

func TestVersionsThatAreRead(t *testing.T) {
	version := func(name, version string, policy bool) *placement {
		p := needing(name, schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "things"})
		p.policy = policy
		return p
	}
	cases := map[string]struct {
		placements []*placement
		want       string
	}{
		"Newest":         {[]*placement{version("a", "v1beta1", true), version("b", "v1", true)}, "v1"},
		"Most":           {[]*placement{version("a", "v1", true), version("b", "v2", true), version("c", "v1", true)}, "v1"},
		"OfPolicies":     {[]*placement{version("a", "v1", true), version("b", "v2", false), version("c", "v2", false)}, "v1"},
		"MostByHand":     {[]*placement{version("a", "v1", false), version("b", "v2", false), version("c", "v1", false)}, "v1"},
		"OnlyOneByHand":  {[]*placement{version("a", "v9", false)}, "v9"},
		"ChangedItsMind": {[]*placement{version("a", "v1", true), version("b", "v2", true), version("a", "v2", true)}, "v2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newWDS(t).controller(t)
			for _, p := range tc.placements {
				c.watchResources(p)
				c.publish(p.name, p)
			}
			if diff := cmp.Diff([]string{tc.want + " things.example.com"}, watching(c)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, p := range tc.placements {
				c.publish(p.name, nil)
			}
			if len(c.needs.by) != 0 || len(c.needs.chosen) != 0 || len(watching(c)) != 0 {
				t.Errorf("when all are gone: %v, %v", c.needs.by, c.needs.chosen)
			}
		})
	}
}

// plugin is a Plugin whose writes wait until they are let go. What it was told to create it tells of when it is asked to.
type plugin struct {
	handler chan Handler
	began   chan *plan.Action
	proceed chan error
}

func newPlugin() *plugin {
	return &plugin{handler: make(chan Handler, 1), began: make(chan *plan.Action), proceed: make(chan error)}
}

func (p *plugin) Run(ctx context.Context, handler Handler) error {
	handler.OnDestination("edge", &Destination{Accepted: true})
	handler.OnSynced()
	p.handler <- handler
	<-ctx.Done()
	return nil
}

func (p *plugin) Do(ctx context.Context, _ Origin, action *plan.Action) (Receipt, error) {
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
			return Receipt{}, err
		}
	}
	return Receipt{UID: "work", Generation: 1}, nil
}

// TestDeletionWaitsForWritesUnderWay: a work that is just being created is there, though nobody has told of it yet.
func TestDeletionWaitsForWritesUnderWay(t *testing.T) {
	created := &plan.Work{Mailbox: "edge", UID: "work", Generation: 1, Binding: "b", BindingUID: "uid", Wave: packing.WaveSecond}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for name, tc := range map[string]struct {
		answer error
		comes  bool
	}{"Created": {nil, true}, "NoAnswerButCreated": {errors.New("no answer"), true}, "Refused": {forbidden, false}} {
		t.Run(name, func(t *testing.T) {
			w, p := newWDS(t), newPlugin()
			c := w.controller(t, Space{Name: "its", Connect: func(context.Context) (Plugin, error) { return p, nil }})
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			running.Go(func() { _ = c.Run(ctx) })
			w.bindings.Add(bindingOf("b", "edge", "settings"))
			handler, action := <-p.handler, <-p.began
			if action.Verb != plan.Create {
				t.Fatalf("the first write is %s", action)
			}
			deleted := w.list()[0].DeepCopy()
			deleted.DeletionTimestamp = &metav1.Time{Time: now}
			w.bindings.Modify(deleted)
			if status := <-w.statuses; !strings.Contains(status, "waiting for works to be gone from: edge") {
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

func TestCreations(t *testing.T) {
	var c creations
	a, b := &plan.Action{Mailbox: "a", Name: "w"}, &plan.Action{Mailbox: "b", Name: "w"}
	check := func(what string, at time.Time, wantRecheck time.Duration, want ...string) {
		t.Helper()
		got, recheck := c.mailboxes("1", at)
		if !slices.Equal(want, got) || recheck != wantRecheck {
			t.Errorf("%s: %q for %s, want %q for %s", what, got, recheck, want, wantRecheck)
		}
	}
	c.begin("1", b)
	c.begin("1", a)
	c.begin("2", a)
	check("under way", now, 0, "a", "b")
	c.end("1", a, nil, now)
	check("created", now, untold, "a", "b")
	c.end("1", b, apierrors.NewInternalError(errors.New("?")), now)
	check("perhaps", now.Add(time.Second), doubtful-time.Second, "a", "b")
	check("not seen", now.Add(doubtful), untold-doubtful, "a")
	c.told(&plan.Work{BindingUID: "1", Mailbox: "a", Name: "w"})
	check("told", now, 0)
	c.begin("1", a)
	c.told(&plan.Work{BindingUID: "1", Mailbox: "a", Name: "w"})
	c.end("1", a, nil, now)
	check("told before the answer came", now, 0)
	c.begin("1", a)
	c.end("1", a, apierrors.NewConflict(schema.GroupResource{}, "", nil), now)
	check("refused", now, 0)
	c.told(&plan.Work{BindingUID: "2", Mailbox: "a", Name: "w"})
	if len(c.pending) != 0 {
		t.Errorf("%v is remembered", c.pending)
	}
}

// TestAdmissionConcernsWhoeverHasWorks: what is being handed over to another WDS can leave at once when its cluster is not let in
// any more, since nobody would ever report that it was; also where it is not listed any more.
func TestAdmissionConcernsWhoeverHasWorks(t *testing.T) {
	for name, p := range map[string]*placement{
		"Listed":   {name: "b", uid: "uid", destinations: map[string]struct{}{"edge": {}}},
		"Unlisted": {name: "b", uid: "uid"},
		"Deleting": {name: "b", uid: "uid", deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newWDS(t).controller(t)
			s := c.spaces[0]
			c.publish("b", p)
			c.publish("other", &placement{name: "other", uid: "other", destinations: map[string]struct{}{"elsewhere": {}}})
			s.OnDestination("edge", &Destination{Accepted: true})
			s.store.setWork(nil, &plan.Work{Mailbox: "edge", Name: "w", Binding: "b", BindingUID: "uid"})
			for s.queue.Len() > 0 {
				key, _ := s.queue.Get()
				s.queue.Done(key)
			}
			s.OnDestination("edge", &Destination{Accepted: false})
			if s.queue.Len() != 1 {
				t.Fatalf("%d deliveries are to be looked at, want one", s.queue.Len())
			}
			if key, _ := s.queue.Get(); key != (Key{"b", "edge"}) {
				t.Errorf("%v is to be looked at", key)
			}
		})
	}
}

// TestNothingIsRememberedOfWhatIsGone: fights of a Binding that goes are over.
func TestNothingIsRememberedOfWhatIsGone(t *testing.T) {
	c := newWDS(t).controller(t)
	s, key := c.spaces[0], Key{Binding: "b", Mailbox: "edge"}
	s.fights.over(key, []plan.Conflict{{Ref: settings, Ours: true}}, nil)
	c.publish("b", &placement{name: "b", uid: "uid", deleting: true})
	if _, err := s.deliver(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if len(s.fights.objects) != 0 {
		t.Errorf("%v is remembered", s.fights.objects)
	}
}
