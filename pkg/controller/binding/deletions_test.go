package binding

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// TestManyDeletions: each of very many deletions counts for its time, and not much longer.
func TestManyDeletions(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	d := newDeletions(clock)
	const many = 60_000
	leave(d, 0, many)
	for _, name := range []string{"0", fmt.Sprint(many - 1)} {
		if !d.of([]objref.Ref{{Resource: "secrets", Namespace: "web", Name: name}}).Deleted[objref.Ref{Resource: "secrets", Namespace: "web", Name: name}] {
			t.Errorf("%s is forgotten", name)
		}
	}
	clock.SetTime(time.Unix(0, 0).Add(expireDeletions + time.Second))
	leave(d, many, 3*many)
	if n := len(d.deleted.since); n > 2*many {
		t.Errorf("%d deletions are kept, of which %d count", n, 2*many)
	}
}

// leave observes the deletion of Secrets.
func leave(d *deletions, from, to int) {
	secrets := dynamicinformer.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	for i := from; i < to; i++ {
		d.observe(secrets, &metav1.ObjectMeta{Namespace: "web", Name: fmt.Sprint(i)}, nil)
	}
}

// BenchmarkManyDeletions: an object that is deleted with very many others should cost no more than
// one of few.
func BenchmarkManyDeletions(b *testing.B) {
	for _, n := range []int{600, 6_000, 60_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				leave(newDeletions(clocktesting.NewFakePassiveClock(time.Unix(0, 0))), 0, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/deletion")
		})
	}
}

// TestDeletionThatWaits: an object that waits for its finalizers was deleted like one that is gone.
func TestDeletionThatWaits(t *testing.T) {
	d := newDeletions(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	configMaps := dynamicinformer.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}}
	ref := objref.Ref{Resource: "configmaps", Namespace: "web", Name: "app"}
	is := &metav1.ObjectMeta{Namespace: "web", Name: "app"}
	d.observe(configMaps, nil, is)
	if d.of([]objref.Ref{ref}).Deleted[ref] {
		t.Error("an object that exists counts as deleted")
	}
	ending := &metav1.ObjectMeta{Namespace: "web", Name: "app", DeletionTimestamp: &metav1.Time{}, Finalizers: []string{"example.com/wait"}}
	d.observe(configMaps, is, ending)
	if !d.of([]objref.Ref{ref}).Deleted[ref] {
		t.Error("an object that is being deleted does not count as deleted")
	}
}
