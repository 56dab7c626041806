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
