package delivery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestDeliveriesUnderWay: others must not rely on works that are being written, or may have been.
// Time decides nothing about that.
func TestDeliveriesUnderWay(t *testing.T) {
	var d deliveries
	key, now := Key{Binding: "b", Mailbox: "m"}, time.Now()
	works := func(change func(*plan.Work)) []*plan.Work {
		w := &plan.Work{Name: "w", UID: "1", Generation: 3}
		if change != nil {
			change(w)
		}
		return []*plan.Work{w}
	}
	expect := func(when string, key Key, works []*plan.Work, want bool) {
		t.Helper()
		if got := d.has(key, works); got != want {
			t.Errorf("%s: %t, want %t", when, got, want)
		}
	}
	expect("nothing began", key, works(nil), false)
	end := d.begin(key)
	expect("it began", key, works(nil), true)
	expect("another one", Key{Binding: "c", Mailbox: "m"}, works(nil), false)
	end()
	expect("it ended", key, works(nil), false)
	write := func(verb plan.Verb, err error) {
		defer d.begin(key)()
		d.doubt(key, &plan.Action{Verb: verb, Name: "w", UID: "1", Generation: 3}, err, now)
	}
	write(plan.Create, context.DeadlineExceeded)
	write(plan.Nudge, context.DeadlineExceeded)
	expect("a creation or a nudge was not answered", key, works(nil), false)
	write(plan.Patch, &net.OpError{Op: "dial", Err: errors.New("refused")})
	expect("a write was not sent", key, works(nil), false)

	deleting := func(w *plan.Work) { w.Deleting = true }
	changed := func(w *plan.Work) { w.Generation = 4 }
	another := func(w *plan.Work) { w.UID = "2" }
	for _, tc := range []struct {
		verb  plan.Verb
		shows []*plan.Work
		want  bool
	}{
		{plan.Patch, works(nil), true},
		{plan.Patch, works(changed), false},
		{plan.Patch, works(deleting), false},
		{plan.Patch, works(another), false},
		{plan.Patch, nil, false},
		{plan.Delete, works(nil), true},
		{plan.Delete, works(changed), true},
		{plan.Delete, works(deleting), false},
		{plan.Delete, nil, false},
	} {
		write(tc.verb, context.DeadlineExceeded)
		expect("a write was not answered", key, works(nil), true)
		expect(fmt.Sprintf("%s was not answered, and the works are %+v", tc.verb, tc.shows), key, tc.shows, tc.want)
	}
	write(plan.Patch, context.DeadlineExceeded)
	d.read(key, map[types.UID]int64{"1": 3}, now.Add(unansweredFor-1))
	expect("it may still be made", key, works(nil), true)
	d.read(key, map[types.UID]int64{"1": 4}, now.Add(time.Hour))
	expect("it was made", key, works(nil), true)
	d.read(key, map[types.UID]int64{}, now.Add(time.Hour))
	expect("the work is gone", key, works(nil), true)
	d.read(key, map[types.UID]int64{"1": 3}, now.Add(unansweredFor))
	expect("no API server would make it now", key, works(nil), false)
	write(plan.Delete, context.DeadlineExceeded)
	d.read(key, map[types.UID]int64{"1": 4}, now.Add(unansweredFor))
	expect("the work was changed, or deleted", key, works(nil), true)
	expect("it was changed and not deleted", key, works(changed), false)
	write(plan.Delete, apierrors.NewInternalError(errors.New("etcdserver: request timed out")))
	expect("an API server does not know whether it was made", key, works(nil), true)
	expect("it was deleted", key, works(deleting), false)
	write(plan.Delete, apierrors.NewConflict(schema.GroupResource{Resource: "manifestworks"}, "w", errors.New("changed")))
	expect("it was refused", key, works(nil), false)
	if len(d.keys)+len(d.doubts) > 0 {
		t.Errorf("%v, %v are remembered", d.keys, d.doubts)
	}
}
