package xpkg

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	cacheSuffix = ".yaml.gz"
	tempPrefix  = ".new-"
	// tempAge is the age of a temporary file that no process writes any more.
	tempAge = time.Hour
)

// cache has the package.yaml of images in a directory, by digest. Several processes may use the
// directory. A nil cache is empty and stores nothing.
type cache struct {
	directory string
	limit     int64
	clock     clock.PassiveClock

	mutex sync.Mutex
	// size is that of the entries when they were last counted, and what this process has added.
	size int64
}

func openCache(directory string, limit int64, c clock.PassiveClock) (*cache, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, fmt.Errorf("create the package cache: %w", err)
	}
	opened := &cache{directory: directory, limit: limit, clock: c}
	err := opened.evict()
	return opened, err
}

func (c *cache) path(digest string) string {
	return filepath.Join(c.directory, strings.TrimPrefix(digest, "sha256:")+cacheSuffix)
}

// get returns an entry; nil if there is none.
func (c *cache) get(digest string) []byte {
	if c == nil {
		return nil
	}
	content, err := os.ReadFile(c.path(digest))
	if err != nil || len(content) == 0 {
		return nil // it is fetched again
	}
	now := c.clock.Now()
	_ = os.Chtimes(c.path(digest), now, now) // the time of use; without it, the entry is evicted earlier
	return content
}

func (c *cache) remove(digest string) { _ = os.Remove(c.path(digest)) } // if it stays, it is replaced

// put adds an entry, and removes those that were not used for the longest time. It does not wait
// until the entry is on the disk: a damaged one is noticed, and fetched again.
func (c *cache) put(digest string, content []byte) error {
	if c == nil || int64(len(content)) > c.limit {
		return nil
	}
	file, err := os.CreateTemp(c.directory, tempPrefix)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), c.path(digest))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	now := c.clock.Now()
	if err := os.Chtimes(c.path(digest), now, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.grow(int64(len(content)))
}

// grow counts a new entry, and evicts others if there may be too much. Entries that other processes
// have added count from the next time on.
func (c *cache) grow(size int64) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.size += size; c.size <= c.limit {
		return nil
	}
	return c.evict()
}

// evict removes what exceeds the limit, and temporary files that a process left.
func (c *cache) evict() error {
	entries, err := os.ReadDir(c.directory)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	var size int64
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // another process removed it
		}
		switch {
		case strings.HasPrefix(info.Name(), tempPrefix):
			if c.clock.Since(info.ModTime()) > tempAge {
				_ = os.Remove(filepath.Join(c.directory, info.Name())) // or else next time
			}
		case strings.HasSuffix(info.Name(), cacheSuffix):
			files = append(files, info)
			size += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, file := range files {
		if size <= c.limit {
			break
		}
		if err := os.Remove(filepath.Join(c.directory, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		size -= file.Size()
	}
	c.size = size
	return nil
}
