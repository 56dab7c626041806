package content

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// TestRetainInterval checks that content is not retained again within the interval, and that
// content that was only read does not count as retained.
func TestRetainInterval(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := NewCache(&Store{clock: clock}, 10_000)
	if _, ok := c.known.Get("a"); ok {
		t.Error("content is cached before it was read")
	}
	c.remember("a", cachedContent{files: kpt.Files{"a": "b"}})
	if cached, ok := c.known.Get("a"); !ok || c.isRetained(cached) {
		t.Errorf("content that was only read: cached %t, retained", ok)
	}
	c.remember("a", cachedContent{kpt.Files{"a": "b"}, clock.Now()})
	clock.SetTime(clock.Now().Add(retainInterval - time.Second))
	if err := c.Retain(t.Context(), "a"); err != nil { // it would need a server otherwise
		t.Error(err)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if cached, _ := c.known.Get("a"); c.isRetained(cached) {
		t.Error("content counts as retained after the interval")
	}
}
