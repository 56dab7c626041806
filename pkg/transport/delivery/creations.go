package delivery

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/plan"
)

const (
	// unreportedFor is how long a work that was created is believed to exist although the Plugin
	// has not reported it. A work that was deleted before the Plugin saw it must not block the
	// deletion of its Binding forever.
	unreportedFor = 10 * time.Minute
	// unansweredFor is the same if the answer was lost. No API server carries out a request that is
	// older.
	unansweredFor = 2 * time.Minute
)

// creations are the works that are being created, or may have been, until the Plugin reports them.
// A Binding that is being deleted keeps its finalizer until then: a work that appears later would
// be orphaned. It is safe for concurrent use.
type creations struct {
	mu      sync.Mutex
	pending nested.Map[types.UID, creation, time.Time] // by Binding; until when each counts, zero while the write is under way
}

// creation names a work.
type creation struct{ mailbox, name string }

// begin records that a work is about to be created.
func (c *creations) begin(binding types.UID, a *plan.Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.Set(binding, creation{a.Mailbox, a.Name}, time.Time{})
}

// end records the answer to a creation.
func (c *creations) end(binding types.UID, a *plan.Action, err error, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	what := creation{a.Mailbox, a.Name}
	switch _, pending := c.pending[binding][what]; {
	case !pending: // reported already
	case err == nil:
		c.pending[binding][what] = now.Add(unreportedFor)
	case refused(err):
		c.pending.Delete(binding, what)
	default:
		c.pending[binding][what] = now.Add(unansweredFor)
	}
}

// refused reports whether an API server surely did not carry out a write. One that failed itself
// may have passed it on to its storage, unless it failed before that.
func refused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	code := answer.Status().Code
	return http.StatusBadRequest <= code && code < http.StatusInternalServerError || strings.Contains(answer.Status().Message, "failed calling webhook")
}

// cancel records that a creation was not begun after all.
func (c *creations) cancel(binding types.UID, a *plan.Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.Delete(binding, creation{a.Mailbox, a.Name})
}

// reported records that the Plugin reported a work.
func (c *creations) reported(work *plan.Work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending.Delete(work.BindingUID, creation{work.Mailbox, work.Name})
}

// mailboxes returns the mailboxes, each once, in which works of a Binding may be that the Plugin
// has not reported, and after what time that may change by itself; zero is never.
func (c *creations) mailboxes(binding types.UID, now time.Time) (mailboxes []string, recheck time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[string]bool{}
	for what, until := range c.pending[binding] {
		left := until.Sub(now)
		switch {
		case until.IsZero():
		case left <= 0:
			c.pending.Delete(binding, what)
			continue
		default:
			recheck = Sooner(recheck, left)
		}
		found[what.mailbox] = true
	}
	return slices.Sorted(maps.Keys(found)), recheck
}
