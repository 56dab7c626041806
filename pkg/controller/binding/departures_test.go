package binding

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynwatch"
)

// TestManyDepartures: an object that leaves with very many others costs no more than one that leaves alone. All are remembered for
// their time, and not much longer.
func TestManyDepartures(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	d := newDepartures(clock)
	secrets := dynwatch.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}
	leave := func(from, to int) {
		for i := from; i < to; i++ {
			d.note(secrets, &metav1.ObjectMeta{Namespace: "web", Name: fmt.Sprint(i)}, nil)
		}
	}
	const many = 60_000
	began := time.Now()
	leave(0, many)
	if took := time.Since(began); took > 20*time.Second { // it takes a tenth of one; looking at all for each would take minutes
		t.Errorf("%d departures take %s", many, took)
	}
	for _, name := range []string{"0", fmt.Sprint(many - 1)} {
		if !d.byItself(objref.Ref{Resource: "secrets", Namespace: "web", Name: name}) {
			t.Errorf("%s is forgotten", name)
		}
	}
	clock.SetTime(time.Unix(0, 0).Add(remembered + time.Second))
	leave(many, 3*many)
	if n := len(d.deleted.since); n > 2*many {
		t.Errorf("%d departures are remembered, of which %d count", n, 2*many)
	}
}
