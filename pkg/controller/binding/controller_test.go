package binding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/writer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wds is a space that holds one policy and its Binding, and notes writes with the time since its
// start.
type wds struct {
	policies, bindings *fcache.FakeControllerSource
	start              time.Time

	mu     sync.Mutex
	policy *controlv1alpha1.BindingPolicy
	bound  *controlv1alpha1.Binding
	log    []string
	refuse error // what is answered to a finalizer
}

func newWDS(policy *controlv1alpha1.BindingPolicy) *wds {
	s := &wds{policies: fcache.NewFakeControllerSource(), bindings: fcache.NewFakeControllerSource(), start: time.Now(), policy: policy}
	publish(s.policies.Add, policy)
	return s
}

// publish lets the informers see the object, and gives it the version that they see.
func publish(as func(runtime.Object), obj interface {
	metav1.Object
	runtime.Object
},
) {
	shown := obj.DeepCopyObject()
	as(shown)
	if accessor, ok := shown.(metav1.Object); ok {
		obj.SetResourceVersion(accessor.GetResourceVersion())
	}
}

func (s *wds) note(verb string, t writer.Target, detail string) {
	s.log = append(s.log, strings.TrimSpace(fmt.Sprintf("%4dms %s %s %s", time.Since(s.start).Milliseconds(), verb, t, detail)))
}

func (s *wds) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *wds) Create(_ context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	binding, _ := obj.(*controlv1alpha1.Binding)
	if s.bound != nil {
		return nil, apierrors.NewAlreadyExists(t.Resource.GroupResource(), t.Name)
	}
	s.bound = binding.DeepCopy()
	s.bound.UID, s.bound.Generation = "binding", 1
	s.note("create", t, reason+" "+strconv.Itoa(corebinding.CountObjects(&binding.Spec)))
	publish(s.bindings.Add, s.bound)
	return &metav1.PartialObjectMetadata{ObjectMeta: s.bound.ObjectMeta}, nil
}

func (s *wds) Update(_ context.Context, t writer.Target, obj any, reason string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	binding, _ := obj.(*controlv1alpha1.Binding)
	s.bound.Spec = *binding.Spec.DeepCopy()
	s.bound.Generation++
	s.note("update", t, reason+" "+strconv.Itoa(corebinding.CountObjects(&binding.Spec)))
	publish(s.bindings.Modify, s.bound)
	return &metav1.PartialObjectMetadata{ObjectMeta: s.bound.ObjectMeta}, nil
}

func (s *wds) Patch(_ context.Context, t writer.Target, _ types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var change controlv1alpha1.BindingPolicy
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	switch {
	case t.Subresource == "status":
		s.policy.Status = change.Status
	case s.refuse != nil:
		return nil, s.refuse
	default:
		s.policy.Finalizers = change.Finalizers
	}
	s.note("patch", t, reason)
	if s.policy.DeletionTimestamp != nil && len(s.policy.Finalizers) == 0 {
		publish(s.policies.Delete, s.policy)
	} else {
		publish(s.policies.Modify, s.policy)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: s.policy.ObjectMeta}, nil
}

func (s *wds) Delete(_ context.Context, t writer.Target, _ types.UID, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	s.note("delete", t, reason)
	s.bindings.Delete(s.bound.DeepCopy())
	s.bound = nil
	return nil
}

// Eventf implements Recorder.
func (s *wds) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// Bindings implements Live.
func (s *wds) Bindings(context.Context, *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound == nil {
		return nil, nil
	}
	return []*controlv1alpha1.Binding{s.bound.DeepCopy()}, nil
}

// Version implements Live.
func (s *wds) Version(_ context.Context, of schema.GroupVersionResource, _ string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case of == controlv1alpha1.BindingPolicies:
		return s.policy.ResourceVersion, nil
	case s.bound == nil:
		return "", nil
	}
	return s.bound.ResourceVersion, nil
}

// CatchUp implements Live.
func (s *wds) CatchUp(context.Context, cache.Store, cache.Store) error { return nil }

// Policies implements Live.
func (s *wds) Policies(context.Context) (map[string]versionOf, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]versionOf{s.policy.Name: versionOfPolicy(s.policy)}, nil
}

// Labels implements Live: all ConfigMaps exist and have none.
func (s *wds) Labels(_ context.Context, r dynamicinformer.Resource, refs []objref.Ref, _ int) (map[objref.Ref]map[string]string, error) {
	labels := map[objref.Ref]map[string]string{}
	for _, ref := range refs {
		if r == configMapResource {
			labels[ref] = nil
		}
	}
	return labels, nil
}

// fixedAPI serves ConfigMaps and Namespaces.
type fixedAPI struct{}

func (fixedAPI) OnNotServed(func()) {}

func (fixedAPI) NotServed(schema.GroupResource) dynamicinformer.NotServed {
	return dynamicinformer.Served
}

var configMapResource = dynamicinformer.Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true,
}

var namespaceResource = dynamicinformer.Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: "Namespace",
}

func (fixedAPI) Resources() map[schema.GroupResource]dynamicinformer.Resource {
	return map[schema.GroupResource]dynamicinformer.Resource{
		configMapResource.GroupResource(): configMapResource, namespaceResource.GroupResource(): namespaceResource,
	}
}
func (fixedAPI) Serves(*string, string) (bool, bool) { return true, true }
func (fixedAPI) Gone(schema.GroupResource) bool      { return false }
func (fixedAPI) Unknown() []string                   { return nil }

// space is a WDS of a test.
type space interface {
	Writer
	Recorder
	Live
	sources() (policies, bindings *fcache.FakeControllerSource)
}

func (s *wds) sources() (policies, bindings *fcache.FakeControllerSource) {
	return s.policies, s.bindings
}

// bothRead tells the controller that both kinds were read.
func bothRead(c *Controller) {
	c.OnSynced(namespaceResource)
	c.OnSynced(configMapResource)
}

// run runs a controller on the space, with one inventory of one cluster, for the time of the test.
func run(t *testing.T, s space) (*Controller, func()) {
	t.Helper()
	policies, bindings := s.sources()
	informer := func(source cache.ListerWatcher, example interface{ metav1.Object }) cache.SharedIndexInformer {
		switch example := example.(type) {
		case *controlv1alpha1.BindingPolicy:
			return cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{})
		case *controlv1alpha1.Binding:
			return cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{})
		default:
			return cache.NewSharedIndexInformer(source, &clusterv1.ManagedCluster{}, 0, cache.Indexers{})
		}
	}
	source := fcache.NewFakeControllerSource()
	source.Add(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}})
	reader := clusters.New(clusters.ITS{Name: "its1", Connect: func(context.Context) (clusters.Source, error) {
		return clusters.Source{Informer: informer(source, &clusterv1.ManagedCluster{})}, nil
	}})
	c, err := New(Config{
		Policies:   informer(policies, &controlv1alpha1.BindingPolicy{}),
		Bindings:   informer(bindings, &controlv1alpha1.Binding{}),
		Clusters:   reader,
		API:        fixedAPI{},
		Selectable: func(schema.GroupResource) bool { return true },
		Index:      match.NewIndex(match.Options{}),
		Writer:     s,
		Events:     s,
		Live:       s,
		Clock:      clock.RealClock{},

		MaxBindingSize: corebinding.DefaultMaxSize,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = reader.Run(ctx) })
	leading := make(chan struct{})
	close(leading)
	running.Go(func() { _ = c.Run(ctx, leading, 2) })
	return c, func() {
		cancel()
		running.Wait()
		for _, source := range []*fcache.FakeControllerSource{policies, bindings, source} {
			source.Broadcaster.Shutdown()
		}
	}
}

func configMap(name, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), ResourceVersion: version}}
}

func pass(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

func newPolicy() *controlv1alpha1.BindingPolicy {
	return &controlv1alpha1.BindingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "policy", Generation: 1},
		Spec: controlv1alpha1.BindingPolicySpec{
			ClusterSelectors: []metav1.LabelSelector{{}},
			Downsync:         []controlv1alpha1.DownsyncPolicyClause{{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{ObjectNames: []string{"*"}}}},
		},
	}
}

func expectWrites(t *testing.T, when string, s *wds, want ...string) {
	t.Helper()
	got := s.took()
	for i := range got {
		_, got[i], _ = strings.Cut(strings.TrimSpace(got[i]), " ")
	}
	if !slices.Equal(want, got) {
		t.Errorf("%s: writes %q, want %q", when, got, want)
	}
}

func TestWritesAreDebounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWDS(newPolicy())
		c, stop := run(t, s)
		defer stop()
		bothRead(c)
		c.OnChange(configMapResource, nil, configMap("zero", "100"))
		pass(2 * time.Second)
		s.took()

		// After quiet, at once.
		c.OnChange(configMapResource, nil, configMap("first", "100"))
		pass(time.Millisecond)
		expectWrites(t, "the first change", s, "update bindings.control.kubestellar.io p set 2")

		// Under load, every 100 ms.
		for i := range 40 {
			c.OnChange(configMapResource, nil, configMap(fmt.Sprint("c", i), "101"))
			pass(10 * time.Millisecond)
		}
		pass(100 * time.Millisecond)
		if got := s.took(); len(got) < 3 || len(got) > 5 || !strings.HasSuffix(got[len(got)-1], " 42") {
			t.Errorf("40 objects in 400 ms: writes %q", got)
		}
		pass(2 * time.Second)
		s.took()

		// Versions, every second.
		for i := range 30 {
			c.OnChange(configMapResource, nil, configMap("first", strconv.Itoa(200+i)))
			pass(100 * time.Millisecond)
		}
		pass(time.Second)
		expectWrites(t, "30 edits in 3 s", s,
			"update bindings.control.kubestellar.io p versions 42", "update bindings.control.kubestellar.io p versions 42",
			"update bindings.control.kubestellar.io p versions 42", "update bindings.control.kubestellar.io p versions 42")
		if got := s.bound.Spec.Workload.NamespaceScope[40].ResourceVersion; got != "229" {
			t.Errorf("the last edit is lost: %s", got)
		}
	})
}

func TestFromPolicyToBindingAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWDS(newPolicy())
		c, stop := run(t, s)
		defer stop()
		c.OnChange(configMapResource, nil, configMap("one", "100"))
		pass(time.Second)
		// Nothing is known of ConfigMaps yet: they are not added, and the status does not speak of
		// it so soon. The cluster may be read before or after the Binding is made.
		s.log = slices.DeleteFunc(s.log, func(write string) bool { return strings.HasSuffix(write, " set 0") })
		expectWrites(t, "before the sync", s, "patch bindingpolicies.control.kubestellar.io p finalizer", "create bindings.control.kubestellar.io p placed 0")
		bothRead(c)
		pass(time.Second)
		expectWrites(t, "after the sync", s, "update bindings.control.kubestellar.io p set 1", "patch bindingpolicies.control.kubestellar.io p (status) status")
		if err := c.Ready(); err != nil {
			t.Errorf("Ready: %v", err)
		}

		s.mu.Lock()
		s.policy.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		publish(s.policies.Modify, s.policy)
		s.mu.Unlock()
		pass(time.Second)
		expectWrites(t, "after the deletion", s, "delete bindings.control.kubestellar.io p policy-deleted",
			"patch bindingpolicies.control.kubestellar.io p (status) status", "patch bindingpolicies.control.kubestellar.io p finalizer")
	})
}

// TestIndexBehindTheInventory: a cluster that the inventory has, and the index not yet, is no
// cluster that left: it stays in Bindings.
func TestIndexBehindTheInventory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWDS(newPolicy())
		c, stop := run(t, s)
		defer stop()
		bothRead(c)
		c.OnChange(configMapResource, nil, configMap("one", "100"))
		pass(2 * time.Second)
		lists := func(when string) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := s.bound.Spec.Destinations; len(got) != 1 || got[0].ClusterID != "c1" {
				t.Errorf("%s: the Binding lists %v, want c1", when, got)
			}
		}
		lists("at first")
		c.changed(c.config.Index.DeleteCluster("c1"))
		pass(2 * time.Second)
		lists("while the index does not have it")
		c.setCluster("c1")
		pass(2 * time.Second)
		lists("when the index has it again")
	})
}

// TestRefusedFinalizer: without it no Binding is made, and the status says so.
func TestRefusedFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWDS(newPolicy())
		s.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "bindingpolicies"}, "p", nil)
		c, stop := run(t, s)
		defer stop()
		bothRead(c)
		pass(2 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		synced := meta.FindStatusCondition(s.policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionSynced)
		if s.bound != nil || synced == nil || synced.Reason != controlv1alpha1.ReasonFailed {
			t.Errorf("Binding %v, condition %+v", s.bound, synced)
		}
	})
}

// TestRefusedDeletion: a Binding that cannot be deleted keeps its policy, whose status says why.
func TestRefusedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWDS(newPolicy())
		c, stop := run(t, s)
		defer stop()
		bothRead(c)
		pass(2 * time.Second)
		s.mu.Lock()
		s.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "bindings"}, "p", nil)
		s.policy.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		publish(s.policies.Modify, s.policy)
		s.mu.Unlock()
		pass(2 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		synced := meta.FindStatusCondition(s.policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionSynced)
		if s.bound == nil || synced.Reason != controlv1alpha1.ReasonDeleting || !strings.Contains(synced.Message, "forbidden") {
			t.Errorf("Binding %v, condition %+v", s.bound, synced)
		}
	})
}

// TestLongStart: a restart whose reads take long writes nothing as long as they do not fail.
func TestLongStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWDS(newPolicy())
		c, stop := run(t, s)
		bothRead(c)
		c.OnChange(configMapResource, nil, configMap("one", "100"))
		pass(2 * time.Second)
		stop()
		s.took()

		s.policies, s.bindings = fcache.NewFakeControllerSource(), fcache.NewFakeControllerSource()
		publish(s.policies.Add, s.policy)
		publish(s.bindings.Add, s.bound)
		c, stop = run(t, s)
		defer stop()
		c.OnSynced(namespaceResource)
		pass(time.Minute)
		expectWrites(t, "while ConfigMaps are read", s)

		c.onFailed(configMapResource, errors.New("no")) // what the Set reports
		pass(time.Minute)
		expectWrites(t, "after an error", s, "patch bindingpolicies.control.kubestellar.io p (status) status")
		c.OnChange(configMapResource, nil, configMap("one", "100"))
		c.OnSynced(configMapResource)
		pass(time.Minute)
		expectWrites(t, "when they are read", s, "patch bindingpolicies.control.kubestellar.io p (status) status")
	})
}
