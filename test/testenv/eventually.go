package testenv

import (
	"testing"
	"time"
)

// Eventually waits until check says ok. What check gives as the reason why not is logged whenever it
// changes, and stands in the failure.
func Eventually(t testing.TB, timeout time.Duration, check func() (ok bool, reason string)) {
	t.Helper()
	const interval = 25 * time.Millisecond
	deadline := time.Now().Add(timeout)
	last := ""
	for {
		ok, reason := check()
		if ok {
			return
		}
		if reason != last {
			t.Log("waiting: " + reason)
			last = reason
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", timeout, reason)
		}
		time.Sleep(interval)
	}
}

// Never watches for a while and fails as soon as check says what happened that must not; "" is nothing. The while must be
// longer than whatever could be on its way is held back: only time shows that nothing happens.
func Never(t testing.TB, while time.Duration, check func() (happened string)) {
	t.Helper()
	const interval = 25 * time.Millisecond
	for end := time.Now().Add(while); ; time.Sleep(interval) {
		if happened := check(); happened != "" {
			t.Fatal(happened)
		}
		if time.Now().After(end) {
			return
		}
	}
}
