package clusters

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
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
		"LeavingNotYetAllRead": {read: []bool{true, false}, in: []*clusterv1.ManagedCluster{cluster("1", leaving), nil}, want: coreinventory.Leaving},
		"AnotherOneIsThere":    {read: []bool{true, true}, in: []*clusterv1.ManagedCluster{cluster("1", leaving), cluster("2")}, want: coreinventory.Accepted, wantUID: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(ITS{Name: "its1"}, ITS{Name: "its2"})
			for i, c := range tc.in {
				r.synced[i] = tc.read[i]
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

// TestOnChange: handlers receive what changes the result of Get, and nothing else.
func TestOnChange(t *testing.T) {
	r := New(ITS{Name: "its1"}, ITS{Name: "its2"})
	var told []string
	r.OnChange(func(name string) { told = append(told, name) })
	at := func(seconds int64) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) { c.CreationTimestamp = metav1.Unix(seconds, 0) }
	}
	label := func(c *clusterv1.ManagedCluster) { c.Labels = map[string]string{"env": "prod"} }
	claim := func(c *clusterv1.ManagedCluster) {
		c.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "a", Value: "b"}}
	}
	r.synced = []bool{true, true}
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
			t.Errorf("%s: notified of %q, want a notification: %t", step.name, told, step.told)
		}
	}
}

// TestRun: what an ITS has is read, without what nobody looks at; one that does not answer holds up
// nothing of the others.
func TestRun(t *testing.T) {
	source := fcache.NewFakeControllerSource()
	source.Add(cluster("1", func(c *clusterv1.ManagedCluster) {
		c.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "much", "mine": "x"}
	}))
	informer := cache.NewSharedIndexInformer(source, &clusterv1.ManagedCluster{}, 0, nil)
	if err := informer.SetTransform(trim); err != nil {
		t.Fatal(err)
	}
	answers := ITS{Name: "its1", Connect: func(context.Context) (Source, error) { return Source{Informer: informer}, nil }}
	silent := ITS{Name: "its2", Connect: func(ctx context.Context) (Source, error) { <-ctx.Done(); return Source{}, ctx.Err() }}
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

// TestReadLabels: the labels of a cluster are those that the ITS has which its name stands for. An
// ITS that does not respond holds up the labels of its own clusters only.
func TestReadLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(ITS{Name: "its1"}, ITS{Name: "its2"}, ITS{Name: "its3"})
		has := func(its string) client.ListMetadata {
			return func(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
				name := strings.TrimPrefix(options.FieldSelector, "metadata.name=")
				if name == "gone" {
					return &metav1.PartialObjectMetadataList{}, nil
				}
				return &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": its}},
				}}}, nil
			}
		}
		r.lists[0], r.lists[1] = has("its1"), has("its2")
		r.lists[2] = func(ctx context.Context, _ metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		named := func(name string) func(*clusterv1.ManagedCluster) {
			return func(c *clusterv1.ManagedCluster) { c.Name = name }
		}
		r.set(0, cluster("1", named("first"), refused))
		r.set(1, cluster("2", named("first")))
		r.set(0, cluster("3", named("second")))
		r.set(0, cluster("4", named("gone")))
		r.set(0, cluster("5", named("denied"), refused))
		r.set(2, cluster("6", named("silent")))
		for i := range r.itses {
			r.setSynced(i)
		}
		labels, unread := r.ReadLabels(t.Context(), []string{"first", "second", "gone", "denied", "silent", "missing"})
		if diff := cmp.Diff(map[string]map[string]string{"first": {"of": "its2"}, "second": {"of": "its1"}}, labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string][]string{"its3": {"silent"}}, unread); diff != "" {
			t.Errorf("unread (-want +got):\n%s", diff)
		}
	})
}

// TestSeenToLeave: of a cluster that the name stood for it is known that it left, also while
// another ITS has not synced; a handler that is added late receives what is known.
func TestSeenToLeave(t *testing.T) {
	r := New(ITS{Name: "its1"}, ITS{Name: "its2"})
	r.synced[0] = true
	r.set(0, cluster("1"))
	var received []string
	r.OnChange(func(name string) { received = append(received, name) })
	if diff := cmp.Diff([]string{"c", ""}, received); diff != "" {
		t.Errorf("a late handler (-want +got):\n%s", diff)
	}
	expect := func(when string, want coreinventory.State) {
		t.Helper()
		if _, state := r.Get("c"); state != want {
			t.Errorf("%s: state %d, want %d", when, state, want)
		}
	}
	expect("accepted", coreinventory.Accepted)
	r.set(0, cluster("1", refused))
	expect("not accepted any more", coreinventory.Absent)
	if pending := r.ListPending(); len(pending) != 1 || pending[0].Name != "c" {
		t.Errorf("pending: %v", pending)
	}
	r.remove(0, cluster("1"))
	expect("gone", coreinventory.Absent)
	r.set(1, cluster("2"))
	expect("in the other ITS", coreinventory.Accepted)

	// When all is known, nothing is kept of names that are gone.
	r.remove(1, cluster("2"))
	r.setSynced(1)
	expect("all is known", coreinventory.Absent)
	r.set(0, cluster("3"))
	r.remove(0, cluster("3"))
	for i, names := range r.chosen {
		if len(names) > 0 {
			t.Errorf("names of %s are kept: %v", r.itses[i].Name, names)
		}
	}
}

// TestMembers: the later of two clusters of a name is contested until it is marked, and is not
// chosen while the other one's ITS is silent.
func TestMembers(t *testing.T) {
	at := func(seconds int64) func(*clusterv1.ManagedCluster) {
		return func(c *clusterv1.ManagedCluster) { c.CreationTimestamp = metav1.Unix(seconds, 0) }
	}
	mark := func(c *clusterv1.ManagedCluster) {
		c.Status.Conditions = []metav1.Condition{{Type: controlv1alpha1.ManagedClusterConditionNameTaken, Status: metav1.ConditionTrue}}
	}
	r := New(ITS{Name: "its1"}, ITS{Name: "its2"})
	r.set(1, cluster("2", at(2), mark))
	if _, state := r.Get("c"); state != coreinventory.Unknown {
		t.Errorf("state %d of a refused cluster", state)
	}
	r.set(0, cluster("1", at(1)))
	want := []Member{{ITS: "its1", UID: "1", Chosen: true}, {ITS: "its2", UID: "2", Refused: true}}
	if diff := cmp.Diff(want, r.Members("c")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c"}, r.Contested()); diff != "" {
		t.Errorf("contested (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"its1", "its2"}, r.Unsynced()); diff != "" {
		t.Errorf("not synced (-want +got):\n%s", diff)
	}
}
