package content

import (
	"container/list"
	"context"
	"sync"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Cache is a Store that remembers what was read and written last: content never changes, so what is remembered is right for as long as
// it is there at all. It is safe for concurrent use.
type Cache struct {
	*Store
	limit int

	mu    sync.Mutex
	size  int
	order *list.List // of *remembered, the last used first
	known map[string]*list.Element
}

type remembered struct {
	digest string
	files  kptpkg.Files
	size   int
}

// NewCache returns a Cache that holds at most so many bytes of files.
func NewCache(s *Store, limit int) *Cache {
	return &Cache{Store: s, limit: limit, order: list.New(), known: map[string]*list.Element{}}
}

// Get returns the files of a digest. They are shared: do not change them.
func (c *Cache) Get(ctx context.Context, digest string) (kptpkg.Files, error) {
	c.mu.Lock()
	if e, ok := c.known[digest]; ok {
		c.order.MoveToFront(e)
		files := e.Value.(*remembered).files //nolint:forcetypeassert // nothing else is in it
		c.mu.Unlock()
		return files, nil
	}
	c.mu.Unlock()
	files, err := c.Store.Get(ctx, digest)
	if err == nil {
		c.remember(digest, files)
	}
	return files, err
}

// Put keeps files as Store.Put does.
func (c *Cache) Put(ctx context.Context, files kptpkg.Files) (string, error) {
	digest, err := c.Store.Put(ctx, files)
	if err == nil {
		c.remember(digest, files)
	}
	return digest, err
}

func (c *Cache) remember(digest string, files kptpkg.Files) {
	const overhead = 64 // of a string and its place in the map
	size := files.Size() + overhead*len(files)
	if size > c.limit/2 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.known[digest]; ok {
		return
	}
	c.known[digest] = c.order.PushFront(&remembered{digest, files, size})
	for c.size += size; c.size > c.limit; {
		last := c.order.Remove(c.order.Back()).(*remembered) //nolint:forcetypeassert // nothing else is in it
		delete(c.known, last.digest)
		c.size -= last.size
	}
}
