package binding

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestOwnWrites(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	o := newOwnWrites(clock)
	b := bindingWrite("b")
	expect := func(when, version string, behind, uncertain bool) {
		t.Helper()
		if o.behind(b, version) != behind || o.isUncertain(b) != uncertain {
			t.Errorf("%s: behind %t, uncertain %t", when, o.behind(b, version), o.isUncertain(b))
		}
	}
	expect("nothing is written", "", false, false)
	o.wrote(b, "10")
	expect("the cache has none", "", true, false)
	expect("the cache has an older one", "9", true, false)
	expect("the cache has it", "10", false, false)
	o.seen(b, "10")
	expect("it was seen", "9", false, false)
	o.wrote(b, "11")
	clock.SetTime(clock.Now().Add(expireWrites + time.Second))
	expect("the cache missed it", "10", false, false)

	o.failed(b, apierrors.NewConflict(schema.GroupResource{Resource: "bindings"}, "b", errors.New("stale")))
	expect("it was refused", "11", false, false)
	o.failed(b, errors.New("connection reset"))
	expect("it may have been made", "11", false, true)
	o.wrote(b, "12")
	expect("the next one was made", "12", false, false)
	o.failed(b, apierrors.NewInternalError(errors.New("timeout of etcd")))
	clock.SetTime(clock.Now().Add(expireWrites + time.Second))
	expect("that was long ago", "12", false, false)
}
