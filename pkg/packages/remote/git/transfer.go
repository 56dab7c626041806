package git

import (
	"io"
	"sync/atomic"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

// transfer bounds what a server sends at once. It records whether a response exceeded the limit,
// because go-git (v5.18) returns only the text of some errors of a reader.
type transfer struct {
	limit    int64
	exceeded atomic.Bool
}

// bound returns a reader of a response that fails after limit bytes.
func (t *transfer) bound(response io.ReadCloser) io.ReadCloser {
	return remote.Bound(response, t.limit, func() error {
		t.exceeded.Store(true)
		return t.errTooLarge()
	})
}

func (t *transfer) errTooLarge() error {
	return remote.Errorf(remote.TooLarge, "the server sends more than the limit of %d MiB", t.limit>>20)
}
