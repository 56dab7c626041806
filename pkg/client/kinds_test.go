package client

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	testclock "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

// served answers as a WDS does that serves some groups and cannot answer for others.
type served struct {
	discovery.ServerResourcesInterface
	lists  []*metav1.APIResourceList
	failed map[schema.GroupVersion]error
	err    error
	asked  int
}

func (s *served) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	s.asked++
	if len(s.failed) > 0 {
		return nil, s.lists, &discovery.ErrGroupDiscoveryFailed{Groups: s.failed}
	}
	return nil, s.lists, s.err
}

// TestKinds: what a WDS could not answer for is not known, rather than not served, and what was
// known stays so.
func TestKinds(t *testing.T) {
	core := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "namespaces", Kind: "Namespace"}, {Name: "namespaces/status", Kind: "Namespace"}, {Name: "pods", Kind: "Pod", Namespaced: true},
	}}
	fish := &metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "fish", Kind: "Fish", Namespaced: true}}}
	away := map[schema.GroupVersion]error{{Group: "example.com", Version: "v1"}: errors.New("not now")}
	pod, cod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Fish"}
	namespace := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	clock := testclock.NewFakeClock(time.Unix(0, 0))
	wds := &served{err: errors.New("nobody answers")}
	k := NewKinds(wds, clock)
	expect := func(step string, kind schema.GroupVersionKind, want workload.Resource, wantKnown, wantErr bool, asked int) {
		t.Helper()
		got, known, err := k.Resource(t.Context(), kind)
		if got != want || known != wantKnown || (err != nil) != wantErr || wds.asked != asked {
			t.Errorf("%s: %+v, known %t, error %v, asked %d times; want %+v, %t, %t, %d", step, got, known, err, wds.asked, want, wantKnown, wantErr, asked)
		}
	}
	expect("nobody answers", pod, workload.Resource{}, false, true, 1)
	expect("nor is anybody asked again at once", pod, workload.Resource{}, false, true, 1)
	clock.Step(failedFor)
	wds.err, wds.lists, wds.failed = nil, []*metav1.APIResourceList{core}, away
	expect("one group does not answer", cod, workload.Resource{}, false, true, 2)
	expect("the others do", pod, workload.Resource{Name: "pods", Namespaced: true}, true, false, 2)
	expect("no subresource", namespace, workload.Resource{Name: "namespaces"}, true, false, 2)
	clock.Step(failedFor)
	wds.lists, wds.failed = []*metav1.APIResourceList{core, fish}, nil
	expect("it answers, for whatever version", cod, workload.Resource{Name: "fish", Namespaced: true}, true, false, 3)
	wds.lists, wds.failed = []*metav1.APIResourceList{core}, away
	clock.Step(unservedFor)
	expect("what nobody has makes it ask", schema.GroupVersionKind{Group: "other.example.com", Version: "v1", Kind: "X"}, workload.Resource{}, false, false, 4)
	expect("what was known stays so", cod, workload.Resource{Name: "fish", Namespaced: true}, true, false, 4)
}
