package content

import (
	"fmt"
	"strings"
	"testing"

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
