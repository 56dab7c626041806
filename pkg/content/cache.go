package content

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"

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
	// kept is when it was put, or the collector was kept away from it, last.
	kept time.Time
}

// rely is for how long nobody has to be told again that content is to be kept: afterwards it stays for a quarter of Grace at least.
const rely = Grace / 4

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

// Put keeps files as Store.Put does. Those that are known were put before, and mostly are there: a package that is cloned to many places
// is the same in most.
func (c *Cache) Put(ctx context.Context, files kptpkg.Files) (string, error) {
	began := c.clock.Now()
	digest := files.Digest()
	err := ErrNotFound
	if c.knows(digest) {
		err = c.Store.Keep(ctx, digest)
	}
	if errors.Is(err, ErrNotFound) {
		_, err = c.Store.Put(ctx, files)
	}
	if err != nil {
		return "", err
	}
	c.remember(digest, files)
	c.keptAt(digest, began)
	return digest, nil
}

func (c *Cache) knows(digest string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.known[digest]
	return ok
}

// Keep keeps content that a revision names as Store.Keep does, for at least a quarter of Grace.
func (c *Cache) Keep(ctx context.Context, digest string) error {
	if c.isKept(digest) {
		return nil
	}
	began := c.clock.Now()
	err := c.Store.Keep(ctx, digest)
	if err == nil {
		c.keptAt(digest, began)
	}
	return err
}

func (c *Cache) isKept(digest string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known[digest]
	return ok && c.clock.Since(e.Value.(*remembered).kept) < rely //nolint:forcetypeassert // nothing else is in it
}

func (c *Cache) keptAt(digest string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.known[digest]; ok {
		e.Value.(*remembered).kept = at //nolint:forcetypeassert // nothing else is in it
	}
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
	c.known[digest] = c.order.PushFront(&remembered{digest: digest, files: files, size: size})
	for c.size += size; c.size > c.limit; {
		last := c.order.Remove(c.order.Back()).(*remembered) //nolint:forcetypeassert // nothing else is in it
		delete(c.known, last.digest)
		c.size -= last.size
	}
}
