package binding

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestOwnWrites: a write is awaited until the cache shows it, or the API server says that the cache
// is right. Time decides nothing but when the API server is asked.
func TestOwnWrites(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	o := newOwnWrites(clock)
	b := bindingWrite("b")
	cached := ""
	expect := func(when string, behind, uncertain, overdue bool) {
		t.Helper()
		got := []bool{o.behind(b, cached), o.isUncertain(b, cached), o.overdue(b, cached)}
		if diff := cmp.Diff([]bool{behind, uncertain, overdue}, got); diff != "" {
			t.Errorf("%s: behind, uncertain and overdue (-want +got):\n%s", when, diff)
		}
	}
	shows := func(version string) {
		cached = version
		o.seen(b, version)
	}
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	read := func(live string, settled bool) {
		t.Helper()
		if got := o.read(b, cached, live); got != settled {
			t.Errorf("read %q, and the cache has %q: settled %t, want %t", live, cached, got, settled)
		}
	}
	expect("nothing is written", false, false, false)
	o.wrote(b, "10")
	expect("the cache has none", true, false, false)
	shows("9")
	expect("the cache has an older one", true, false, false)
	shows("10")
	expect("the cache has it", false, false, false)

	o.wrote(b, "11")
	pass(time.Hour)
	expect("the cache has lacked it for long", true, false, true)
	read("11", false)
	expect("it is there", true, false, false)
	pass(confirmAfter)
	expect("it is read again", true, false, true)
	read("15", false)
	shows("12")
	expect("the cache has it, but not what was read", true, false, false)
	shows("15")
	expect("the cache has what was read", false, false, false)

	o.wrote(b, "16")
	pass(confirmAfter)
	read("", false)
	expect("it is gone, and the cache has it", true, false, false)
	pass(confirmAfter)
	cached = ""
	read("", true)
	expect("it is gone, and the cache never had it", false, false, false)
	cached = "7"
	o.wrote(b, "16")
	pass(confirmAfter)
	read("7", true)
	expect("it is as the cache has it, from a backup", false, false, false)

	o.failed(b, "7", apierrors.NewConflict(schema.GroupResource{Resource: "bindings"}, "b", errors.New("stale")))
	expect("it was refused", false, false, false)
	o.failed(b, "7", errors.New("connection reset"))
	expect("it may have been made", false, true, false)
	cached = "8"
	expect("something was written after that version", false, false, false)
	o.failed(b, "8", errors.New("connection reset"))
	pass(confirmAfter)
	expect("it may have been made, and the cache be late", false, true, true)
	read("8", false)
	expect("it is not made yet", false, true, false)
	pass(confirmAfter)
	read("9", false)
	expect("it was made", true, false, false)
	shows("9")
	expect("and the cache has it", false, false, false)
	o.failed(b, "9", apierrors.NewInternalError(errors.New("timeout of etcd")))
	pass(unansweredFor)
	expect("no API server would make it now", false, true, true)
	read("9", true)
	expect("and it was not made", false, false, false)
	o.failed(b, "9", errors.New("connection reset"))
	o.wrote(b, "10")
	expect("the next one was made", true, false, false)
	o.forget(b)

	cached = ""
	o.failed(b, "", errors.New("connection reset"))
	expect("a creation may have been made", false, true, false)
	cached = "11"
	expect("there is one", false, false, false)
}
