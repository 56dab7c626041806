package store

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// renderLimiter bounds the size of packages that are merged and rendered at the same time: a parsed
// package takes many times its size in memory. Requests wait in order, and fail with
// TooManyRequests after a timeout.
type renderLimiter struct {
	semaphore *semaphore.Weighted
	size      int64
	timeout   time.Duration
}

func newRenderLimiter(size int64, patience time.Duration) *renderLimiter {
	return &renderLimiter{semaphore.NewWeighted(size), size, patience}
}

// acquire blocks until there is capacity for the files, and reserves it until leave is called.
// Files that exceed the total capacity are processed alone.
func (r *renderLimiter) acquire(ctx context.Context, files ...kpt.Files) (leave func(), err error) {
	const itself = 16 << 10 // of each request
	weight := int64(itself)
	for _, f := range files {
		weight += int64(f.Size())
	}
	weight = min(weight, r.size)
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	switch err := r.semaphore.Acquire(waiting, weight); {
	case err == nil:
		return func() { r.semaphore.Release(weight) }, nil
	case ctx.Err() != nil:
		return nil, apierrors.NewTimeoutError("the request timed out while it waited for other packages to be rendered", 1)
	}
	return nil, apierrors.NewTooManyRequests("package-server is rendering too many packages; try again later", 1)
}
