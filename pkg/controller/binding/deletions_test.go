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

// TestManyDeletions: an object that leaves with very many others costs no more than one that leaves
// alone. All are expireDeletions for their time, and not much longer.
func TestManyDeletions(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	d := newDeletions(clock)
	secrets := dynamicinformer.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	leave := func(from, to int) {
		for i := from; i < to; i++ {
			d.observe(secrets, &metav1.ObjectMeta{Namespace: "web", Name: fmt.Sprint(i)}, nil)
		}
	}
	const many = 60_000
	began := time.Now()
	leave(0, many)
	if took := time.Since(began); took > 20*time.Second { // it takes a tenth of one; looking at all for each would take minutes
		t.Errorf("%d departures take %s", many, took)
	}
	for _, name := range []string{"0", fmt.Sprint(many - 1)} {
		if !d.of([]objref.Ref{{Resource: "secrets", Namespace: "web", Name: name}}).Deleted[objref.Ref{Resource: "secrets", Namespace: "web", Name: name}] {
			t.Errorf("%s is forgotten", name)
		}
	}
	clock.SetTime(time.Unix(0, 0).Add(expireDeletions + time.Second))
	leave(many, 3*many)
	if n := len(d.deleted.since); n > 2*many {
		t.Errorf("%d departures are expireDeletions, of which %d count", n, 2*many)
	}
}
