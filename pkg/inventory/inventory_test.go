package inventory

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
)

func cluster(uid string, change ...func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: types.UID(uid)}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	for _, f := range change {
		f(c)
	}
	return c
}

func leaving(c *clusterv1.ManagedCluster) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
func refused(c *clusterv1.ManagedCluster) { c.Spec.HubAcceptsClient = false }

// TestIgnoranceIsNoAnswer: that a cluster is gone is said only when every ITS was read.
func TestIgnoranceIsNoAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		read    []bool
		in      []*clusterv1.ManagedCluster // one of each ITS
		want    coreinventory.State
		wantUID types.UID
	}{
		"NothingRead":          {read: []bool{false, false}, in: []*clusterv1.ManagedCluster{nil, nil}, want: coreinventory.Unknown},
		"NotInTheOneRead":      {read: []bool{true, false}, in: []*clusterv1.ManagedCluster{nil, nil}, want: coreinventory.Unknown},
		"InNone":               {read: []bool{true, true}, in: []*clusterv1.ManagedCluster{nil, nil}, want: coreinventory.Absent},
		"InTheOneRead":         {read: []bool{true, false}, in: []*clusterv1.ManagedCluster{cluster("1"), nil}, want: coreinventory.Accepted, wantUID: "1"},
		"NotAccepted":          {read: []bool{true, true}, in: []*clusterv1.ManagedCluster{cluster("1", refused), nil}, want: coreinventory.Absent},
		"PerhapsElsewhere":     {read: []bool{true, false}, in: []*clusterv1.ManagedCluster{cluster("1", refused), nil}, want: coreinventory.Unknown},
		"Leaving":              {read: []bool{true, true}, in: []*clusterv1.ManagedCluster{cluster("1", leaving), nil}, want: coreinventory.Leaving},
		"LeavingNotYetAllRead": {read: []bool{true, false}, in: []*clusterv1.ManagedCluster{cluster("1", leaving), nil}, want: coreinventory.Unknown},
		"AnotherOneIsThere":    {read: []bool{true, true}, in: []*clusterv1.ManagedCluster{cluster("1", leaving), cluster("2")}, want: coreinventory.Accepted, wantUID: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Space{Name: "its1"}, Space{Name: "its2"})
			for i, c := range tc.in {
				r.read[i] = tc.read[i]
				if c != nil {
					r.set(i, c)
				}
			}
			got, state := r.Get("c")
			if state != tc.want || (got != nil) != (tc.want == coreinventory.Accepted) || got != nil && got.UID != tc.wantUID {
				t.Errorf("got %+v, %d; want %q, %d", got, state, tc.wantUID, tc.want)
			}
			list, complete := r.List()
			if len(list) != map[bool]int{true: 1}[tc.want == coreinventory.Accepted] || complete != (tc.read[0] && tc.read[1]) {
				t.Errorf("listed %d, complete %t", len(list), complete)
			}
		})
	}
}

// TestOnChange: who listens is told of what changes what is known, and of nothing else.
func TestOnChange(t *testing.T) {
	r := New(Space{Name: "its1"}, Space{Name: "its2"})
	var told []string
	r.OnChange(func(name string) { told = append(told, name) })
	at := func(seconds int64) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) { c.CreationTimestamp = metav1.Unix(seconds, 0) }
	}
	label := func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"env": "prod"} }
	claim := func(c *clusterv1.ManagedCluster) {
		c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "a", Value: "b"}}
	}
	r.read = []bool{true, true}
	for _, step := range []struct {
		name string
		do   func()
		told bool
	}{
		{"it comes", func() { r.set(0, cluster("1", at(20))) }, true},
		{"nothing that counts", func() { r.set(0, cluster("1", at(20), claim)) }, false},
		{"another one that is later", func() { r.set(1, cluster("2", at(30))) }, false},
		{"another one that is earlier", func() { r.set(1, cluster("2", at(10))) }, true},
		{"a label", func() { r.set(1, cluster("2", at(10), label)) }, true},
		{"a label of the one that is not meant", func() { r.set(0, cluster("1", at(20), label)) }, false},
		{"not accepted any more", func() { r.set(1, cluster("2", at(10), label, refused)) }, true},
		{"gone, and nobody meant it", func() { r.remove(1, cache.DeletedFinalStateUnknown{Key: "c"}) }, false},
		{"leaving", func() { r.set(0, cluster("1", at(20), label, leaving)) }, true},
		{"gone", func() { r.remove(0, cluster("1")) }, true},
	} {
		told = nil
		step.do()
		if (len(told) == 1 && told[0] == "c") != step.told {
			t.Errorf("%s: told %q", step.name, told)
		}
	}
}

// TestRun: what an ITS has is read, without what nobody looks at; one that does not answer holds up nothing of the others.
func TestRun(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(cluster("1", func(c *clusterv1.ManagedCluster) {
		c.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "much", "mine": "x"}
	}))
	informer := cache.NewSharedIndexInformer(source, &clusterv1.ManagedCluster{}, 0, nil)
	if err := informer.SetTransform(keep); err != nil {
		t.Fatal(err)
	}
	answers := Space{Name: "its1", Connect: func(context.Context) (cache.SharedIndexInformer, error) { return informer, nil }}
	silent := Space{Name: "its2", Connect: func(ctx context.Context) (cache.SharedIndexInformer, error) { <-ctx.Done(); return nil, ctx.Err() }}
	r := New(answers, silent)
	told := make(chan string, 2)
	r.OnChange(func(name string) { told <- name })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	for range cap(told) { // the cluster, and that one ITS was read, in any order
		<-told
	}
	got, state := r.Get("c")
	if diff := cmp.Diff(&Cluster{Name: "c", UID: "1", Annotations: map[string]string{"mine": "x"}}, got); diff != "" || state != coreinventory.Accepted {
		t.Errorf("state %d (-want +got):\n%s", state, diff)
	}
	if _, complete := r.List(); complete || r.Ready() == nil {
		t.Error("its2 was not read")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
