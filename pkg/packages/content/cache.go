package content

import (
	"context"
	"errors"
	"time"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/boundedcache"
)

// Cache is a Store that caches content that was read or written last. Content never changes, so a
// cached value is correct as long as the content exists. It is safe for concurrent use.
type Cache struct {
	*Store
	known *boundedcache.Cache[string, cachedContent]
}

type cachedContent struct {
	files kpt.Files
	// retainedAt is when the content was last put or retained; zero if it was only read.
	retainedAt time.Time
}

// retainInterval is how long a further Retain is skipped. Afterwards, the content still stays for
// at least a quarter of Grace.
const retainInterval = Grace / 4

// NewCache returns a Cache of at most limit bytes of files.
func NewCache(s *Store, limit int) *Cache {
	return &Cache{s, boundedcache.New[string, cachedContent](limit)}
}

// Get returns the files of a digest. They are shared: do not change them.
func (c *Cache) Get(ctx context.Context, digest string) (kpt.Files, error) {
	if cached, ok := c.known.Get(digest); ok {
		return cached.files, nil
	}
	files, err := c.Store.Get(ctx, digest)
	if err == nil {
		c.remember(digest, cachedContent{files: files})
	}
	return files, err
}

// Put stores files as Store.Put does. Content that is cached was usually stored before, so it is
// only retained: a package that is cloned many times is mostly equal in all places.
func (c *Cache) Put(ctx context.Context, files kpt.Files) (string, error) {
	began := c.clock.Now()
	digest := files.Digest()
	err := ErrNotFound
	if _, ok := c.known.Get(digest); ok {
		err = c.Store.Retain(ctx, digest)
	}
	if errors.Is(err, ErrNotFound) {
		_, err = c.Store.Put(ctx, files)
	}
	if err != nil {
		return "", err
	}
	c.remember(digest, cachedContent{files, began})
	return digest, nil
}

// Retain retains content as Store.Retain does, for at least a quarter of Grace.
func (c *Cache) Retain(ctx context.Context, digest string) error {
	cached, ok := c.known.Get(digest)
	if ok && c.isRetained(cached) {
		return nil
	}
	began := c.clock.Now()
	err := c.Store.Retain(ctx, digest)
	if err == nil && ok {
		c.remember(digest, cachedContent{cached.files, began})
	}
	return err
}

func (c *Cache) isRetained(cached cachedContent) bool {
	return c.clock.Since(cached.retainedAt) < retainInterval
}

func (c *Cache) remember(digest string, cached cachedContent) {
	const overhead = 64 // of a string and its map entry
	c.known.Add(digest, cached, cached.files.Size()+overhead*len(cached.files))
}
