package testenv

import (
	"fmt"
	"testing"
	"time"
)

// Eventually blocks until check returns ok. The reason that check returns otherwise is logged when
// it changes, and is in the failure.
func Eventually(t testing.TB, timeout time.Duration, check func() (ok bool, reason string)) {
	t.Helper()
	const least, most = 25 * time.Millisecond, 250 * time.Millisecond
	start := time.Now()
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
		waited := time.Since(start)
		if waited > timeout {
			t.Fatalf("not within %s: %s", timeout, reason)
		}
		time.Sleep(min(max(waited/10, least), most)) // or many tests that wait keep the machine from what they wait for
	}
}

// Still blocks until value has returned the same for so long, which must be longer than anything
// that could still change it takes.
func Still[T comparable](t testing.TB, long time.Duration, value func() T) {
	t.Helper()
	last, since := value(), time.Now()
	Eventually(t, Patience, func() (bool, string) {
		if now := value(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= long, fmt.Sprintf("it still changes: %v", last)
	})
}

// Never calls check repeatedly for some time, and fails the test if it returns what happened. The
// time must be longer than any delay after which something could happen.
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
