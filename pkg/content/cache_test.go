package content

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// TestCacheIsBounded: it holds what was used last, and never more than it may.
func TestCacheIsBounded(t *testing.T) {
	c := NewCache(nil, 10_000)
	for i := range 50 {
		c.remember(fmt.Sprint(i), kptpkg.Files{"a": strings.Repeat("x", 2000)})
		if i == 49 {
			break
		}
		if _, err := c.Get(t.Context(), "0"); i < 3 && err != nil {
			t.Fatal(err)
		}
		if c.size > c.limit || c.order.Len() != len(c.known) {
			t.Fatalf("after %d: %d bytes, %d and %d entries", i, c.size, c.order.Len(), len(c.known))
		}
	}
	if _, known := c.known["0"]; !known {
		t.Error("what was used each time is gone")
	}
	if _, known := c.known["1"]; known {
		t.Error("what was never used is there")
	}
	before := c.size
	c.remember("large", kptpkg.Files{"a": strings.Repeat("x", 9000)})
	c.remember("0", kptpkg.Files{"a": strings.Repeat("x", 2000)})
	if c.size != before {
		t.Errorf("%d bytes, then %d", before, c.size)
	}
}

// TestKeptOnce: for a while nobody is told again that content is to be kept.
func TestKeptOnce(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c := NewCache(&Store{clock: clock}, 10_000)
	if c.isKept("a") || c.knows("a") {
		t.Error("is known before it was seen")
	}
	c.remember("a", kptpkg.Files{"a": "b"})
	if c.isKept("a") || !c.knows("a") {
		t.Error("what was read only may be collected")
	}
	c.keptAt("a", clock.Now())
	clock.SetTime(clock.Now().Add(rely - time.Second))
	if !c.isKept("a") {
		t.Error("is not relied on")
	}
	clock.SetTime(clock.Now().Add(time.Second))
	if c.isKept("a") {
		t.Error("is relied on for ever")
	}
}
