package transport

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/plan"
)

const (
	// untold is for how long a work that was created is believed to be there without being told of: whoever deleted it before
	// the plugin saw it must not hold up its Binding for ever.
	untold = 10 * time.Minute
	// doubtful is the same if the answer was lost. No space carries out a request that is older.
	doubtful = 2 * time.Minute
)

// creations remember the works that are being created, or may have been, until the Plugin tells of them. A Binding that is being
// deleted must not go before: whatever comes after it is an orphan.
type creations struct {
	mu      sync.Mutex
	pending map[types.UID]map[creation]time.Time // by Binding; until when it counts, zero while the write is under way
}

// creation names a work.
type creation struct{ mailbox, name string }

func (c *creations) begin(binding types.UID, a *plan.Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[types.UID]map[creation]time.Time{}
	}
	if c.pending[binding] == nil {
		c.pending[binding] = map[creation]time.Time{}
	}
	c.pending[binding][creation{a.Mailbox, a.Name}] = time.Time{}
}

// end notes what came of a creation.
func (c *creations) end(binding types.UID, a *plan.Action, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := creation{a.Mailbox, a.Name}
	switch _, pending := c.pending[binding][what]; {
	case !pending: // told of already
	case err == nil:
		c.pending[binding][what] = now.Add(untold)
	case refused(err):
		c.remove(binding, what)
	default:
		c.pending[binding][what] = now.Add(doubtful)
	}
}

// refused tells whether a space surely did not carry out a write.
func refused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return http.StatusBadRequest <= code && code < http.StatusInternalServerError
}

// told notes that the Plugin told of a work.
func (c *creations) told(work *plan.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(work.BindingUID, creation{work.Mailbox, work.Name})
}

// mailboxes returns those in which works of a Binding may be that were not told of, each once, and after which time that may change
// by itself.
func (c *creations) mailboxes(binding types.UID, now time.Time) (mailboxes []string, recheck time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]bool{}
	for what, until := range c.pending[binding] {
		left := until.Sub(now)
		switch {
		case until.IsZero():
		case left <= 0:
			c.remove(binding, what)
			continue
		case recheck == 0 || left < recheck:
			recheck = left
		}
		found[what.mailbox] = true
	}
	return slices.Sorted(maps.Keys(found)), recheck
}

// remove is called with the lock held.
func (c *creations) remove(binding types.UID, what creation) {
	delete(c.pending[binding], what)
	if len(c.pending[binding]) == 0 {
		delete(c.pending, binding)
	}
}

// creating notes that a work is about to be created; false if the Binding, as it is now, does not want that any more. A Binding that
// finds nothing under way after it began to be deleted can rely on it that nothing will be.
func (s *space) creating(p *placement, a *plan.Action) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.placements[p.name]; now == nil || now.uid != p.uid || now.deleting {
		return false
	}
	s.creations.begin(p.uid, a)
	return true
}
