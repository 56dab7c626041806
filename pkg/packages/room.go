package packages

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// room bounds how much is merged and rendered at once: a package that was parsed takes many times its size. Who does not fit waits, in
// order, and is told to come again if that takes too long.
type room struct {
	taken    *semaphore.Weighted
	size     int64
	patience time.Duration
}

func newRoom(size int64, patience time.Duration) *room {
	return &room{semaphore.NewWeighted(size), size, patience}
}

// enter takes room for files until leave is called. Files that are larger than all of it are alone.
func (r *room) enter(ctx context.Context, files ...kptpkg.Files) (leave func(), err error) {
	const itself = 16 << 10 // of a request, whatever it is about
	weight := int64(itself)
	for _, f := range files {
		weight += int64(f.Size())
	}
	weight = min(weight, r.size)
	waiting, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	switch err := r.taken.Acquire(waiting, weight); {
	case err == nil:
		return func() { r.taken.Release(weight) }, nil
	case ctx.Err() != nil:
		return nil, apierrors.NewTimeoutError("the request waited for its turn for longer than it may take", 1)
	}
	return nil, apierrors.NewTooManyRequests("package-server merges and renders as much as it may; try again later", 1)
}
