package binding

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/writer"
)

// lateWDS is a space with several policies. Its watch of Bindings may show nothing new.
type lateWDS struct {
	policies, bindings *fcache.FakeControllerSource

	mu       sync.Mutex
	stored   map[string]*controlv1alpha1.BindingPolicy
	bound    map[string]*controlv1alpha1.Binding
	labels   map[string]string // of the ConfigMap "settings"
	late     bool
	lost     error // what the answer to a write of a Binding is replaced with
	unlisted bool  // at some time no Binding listed the ConfigMap
}

func newLateWDS(sides ...string) *lateWDS {
	s := &lateWDS{
		policies: fcache.NewFakeControllerSource(), bindings: fcache.NewFakeControllerSource(),
		stored: map[string]*controlv1alpha1.BindingPolicy{}, bound: map[string]*controlv1alpha1.Binding{}, labels: map[string]string{},
	}
	for _, side := range sides {
		policy := newPolicy()
		policy.Name, policy.UID = side, types.UID(side)
		policy.Spec.Downsync[0].DownsyncObjectTest = controlv1alpha1.DownsyncObjectTest{
			ObjectSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{side: "yes"}}},
		}
		s.labels[side] = "yes"
		s.stored[side] = policy
		publish(s.policies.Add, policy)
	}
	return s
}

func (s *lateWDS) sources() (policies, bindings *fcache.FakeControllerSource) {
	return s.policies, s.bindings
}

func (s *lateWDS) lists(name string) bool {
	b := s.bound[name]
	return b != nil && corebinding.CountObjects(&b.Spec) == 1
}

// listing returns the Bindings that list the ConfigMap.
func (s *lateWDS) listing() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.bound))
	return slices.DeleteFunc(names, func(name string) bool { return !s.lists(name) })
}

func (s *lateWDS) Create(_ context.Context, t writer.Target, obj any, _ string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	binding, _ := obj.(*controlv1alpha1.Binding)
	b := binding.DeepCopy()
	b.UID, b.Generation = types.UID(t.Name+"-binding"), 1
	s.bound[t.Name] = b
	publish(s.bindings.Add, b)
	return &metav1.PartialObjectMetadata{ObjectMeta: b.ObjectMeta}, nil
}

func (s *lateWDS) Update(_ context.Context, t writer.Target, obj any, _ string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	binding, _ := obj.(*controlv1alpha1.Binding)
	b := s.bound[t.Name]
	if binding.ResourceVersion != b.ResourceVersion {
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name, errors.New("it changed"))
	}
	b.Spec = *binding.Spec.DeepCopy()
	b.Generation++
	as := s.bindings.Modify
	if s.late {
		as = s.bindings.ModifyDropWatch
	}
	publish(as, b)
	s.unlisted = s.unlisted || !slices.ContainsFunc(slices.Collect(maps.Keys(s.bound)), s.lists)
	if s.lost != nil {
		return nil, s.lost
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: b.ObjectMeta}, nil
}

func (s *lateWDS) Patch(_ context.Context, t writer.Target, _ types.PatchType, patch []byte, _ string) (*metav1.PartialObjectMetadata, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var change controlv1alpha1.BindingPolicy
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	policy := s.stored[t.Name]
	if t.Subresource == "status" {
		policy.Status = change.Status
	} else {
		policy.Finalizers = change.Finalizers
	}
	publish(s.policies.Modify, policy)
	return &metav1.PartialObjectMetadata{ObjectMeta: policy.ObjectMeta}, nil
}

func (s *lateWDS) Delete(context.Context, writer.Target, types.UID, string) error {
	return errors.New("nothing is deleted in these tests")
}

func (s *lateWDS) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func (s *lateWDS) Bindings(context.Context, *controlv1alpha1.BindingPolicy) ([]*controlv1alpha1.Binding, error) {
	return nil, errors.New("no policy is deleted in these tests")
}

func (s *lateWDS) CatchUp(context.Context, cache.Store, cache.Store) error { return nil }

func (s *lateWDS) Version(_ context.Context, of schema.GroupVersionResource, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of == controlv1alpha1.BindingPolicies {
		return s.stored[name].ResourceVersion, nil
	}
	if b := s.bound[name]; b != nil {
		return b.ResourceVersion, nil
	}
	return "", nil
}

func (s *lateWDS) Policies(context.Context) (map[string]versionOf, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	versions := map[string]versionOf{}
	for name, policy := range s.stored {
		versions[name] = versionOfPolicy(policy)
	}
	return versions, nil
}

func (s *lateWDS) Labels(_ context.Context, r dynamicinformer.Resource, refs []objref.Ref, _ int) (map[objref.Ref]map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	labels := map[objref.Ref]map[string]string{}
	for _, ref := range refs {
		if r == configMapResource {
			labels[ref] = maps.Clone(s.labels)
		}
	}
	return labels, nil
}

// relabel gives the ConfigMap the labels of these sides. Its version stays, so that nothing but
// what is selected changes.
func (s *lateWDS) relabel(c *Controller, sides ...string) {
	labels := map[string]string{}
	for _, side := range sides {
		labels[side] = "yes"
	}
	s.mu.Lock()
	s.labels = labels
	s.mu.Unlock()
	after := configMap("settings", "100")
	after.Labels = labels
	c.OnChange(configMapResource, nil, after)
}

// catchUp lets the watch of Bindings show everything again.
func (s *lateWDS) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late, s.lost = false, nil
	for _, b := range s.bound {
		publish(s.bindings.Modify, b)
	}
}

// TestHandOverOnALateWatch: an object passes from policy b to policy a, whose Bindings both list
// it, and back. The watch of Bindings does not show that b's Binding dropped it, for minutes. On
// what it shows, each policy would think that the other one's Binding, or its own, lists the
// object.
func TestHandOverOnALateWatch(t *testing.T) {
	for name, lost := range map[string]error{"Answered": nil, "AnswerLost": errors.New("connection reset")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newLateWDS("a", "b")
				c, stop := run(t, s)
				defer stop()
				bothRead(c)
				s.relabel(c, "a", "b")
				pass(10 * time.Second)
				expect := func(when string, want ...string) {
					t.Helper()
					if got := s.listing(); !slices.Equal(got, want) {
						t.Errorf("%s: listed by %q, want %q", when, got, want)
					}
				}
				expect("both select it", "a", "b")
				s.mu.Lock()
				s.late, s.lost = true, lost
				s.mu.Unlock()
				s.relabel(c, "a")
				pass(time.Minute)
				expect("b does not select it any more", "a")
				s.relabel(c, "b")
				pass(10 * time.Minute)
				expect("the watch does not show that b has dropped it", "a")
				s.catchUp()
				pass(10 * time.Second)
				expect("the watch shows it", "b")
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.unlisted {
					t.Error("for a time no Binding listed the object")
				}
			})
		})
	}
}

// TestDeletionOnALateWatch: a Binding that we deleted lists nothing, although the cache shows it as
// it was, unless the API server has it like that: then it is back from a backup.
func TestDeletionOnALateWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLateWDS("a")
		c, stop := run(t, s)
		defer stop()
		bothRead(c)
		s.relabel(c, "a")
		pass(10 * time.Second)
		expect := func(when string, behind bool) {
			t.Helper()
			if err := c.confirmWrites(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if got := c.behind(c.policy("a")); got != behind {
				t.Errorf("%s: behind %t, want %t", when, got, behind)
			}
		}
		expect("nothing was deleted", false)
		c.memory.setDeleted("a", c.binding("a").UID)
		s.mu.Lock()
		publish(s.bindings.ModifyDropWatch, s.bound["a"]) // it is being deleted
		s.mu.Unlock()
		expect("the deletion does not show", true)
		s.catchUp()
		pass(time.Second)
		c.memory.setDeleted("a", c.binding("a").UID)
		expect("it is back", false)
	})
}
