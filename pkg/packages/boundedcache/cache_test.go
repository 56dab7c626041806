package boundedcache

import (
	"fmt"
	"sync"
	"testing"
)

// TestCacheIsBounded checks that the cache holds what was used last, and never exceeds its limit.
func TestCacheIsBounded(t *testing.T) {
	c := New[string, int](10_000)
	for i := range 50 {
		c.Add(fmt.Sprint(i), i, 2000)
		if value, ok := c.Get("0"); !ok || value != 0 {
			t.Fatalf("after %d: %d, %t", i, value, ok)
		}
		if c.size > c.limit || c.size != 2000*c.Len() {
			t.Fatalf("after %d: %d bytes of %d values", i, c.size, c.Len())
		}
	}
	if _, ok := c.Get("1"); ok || c.Len() != 5 {
		t.Errorf("%d values; a value that was never used is in the cache: %t", c.Len(), ok)
	}
	c.Add("large", 1, 5001)
	if _, ok := c.Get("large"); ok || c.size != 10_000 {
		t.Errorf("%d bytes, with a value of more than half of the limit: %t", c.size, ok)
	}
	c.Add("0", 7, 1000)
	if value, _ := c.Get("0"); value != 7 || c.size != 9000 || c.Len() != 5 {
		t.Errorf("a replaced value is %d; %d bytes of %d values", value, c.size, c.Len())
	}
}

func TestConcurrentUse(t *testing.T) {
	c := New[int, int](100)
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for j := range 1000 {
				c.Add(j%(10+i), j, 10)
				c.Get(j % 7)
			}
		})
	}
	running.Wait()
	if c.size != 10*c.Len() || c.size > 100 {
		t.Errorf("%d bytes of %d values", c.size, c.Len())
	}
}
