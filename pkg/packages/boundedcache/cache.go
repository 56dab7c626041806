// Package boundedcache has a cache that is bounded by the size of its values.
package boundedcache

import (
	"sync"

	"k8s.io/utils/lru"
)

// Cache holds the values that were used last, up to a total size. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	limit   int
	entries *lru.Cache
	mu      sync.Mutex // for changes of entries and size together
	size    int
}

type entry[V any] struct {
	value V
	size  int
}

// New returns a Cache whose values have at most limit bytes together.
func New[K comparable, V any](limit int) *Cache[K, V] {
	c := &Cache[K, V]{limit: limit}
	c.entries = lru.NewWithEvictionFunc(0, func(_ lru.Key, removed any) {
		c.size -= removed.(entry[V]).size
	})
	return c
}

// Get returns a value. It is shared by all callers.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	found, ok := c.entries.Get(key)
	if ok {
		value = found.(entry[V]).value
	}
	return value, ok
}

// Add stores a value of size bytes, unless that is more than half of the limit. It replaces an
// earlier value.
func (c *Cache[K, V]) Add(key K, value V, size int) {
	if size > c.limit/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(key)
	c.entries.Add(key, entry[V]{value, size})
	for c.size += size; c.size > c.limit; {
		c.entries.RemoveOldest()
	}
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int { return c.entries.Len() }
