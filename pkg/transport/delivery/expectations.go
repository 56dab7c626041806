package delivery

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// expectations are our own writes that the Plugin has not reported yet. Until then a plan would be
// based on works as they were before the write. Each write is guarded by the work that it changes,
// but not by the others on which it was decided. It is safe for concurrent use.
type expectations struct {
	mu      sync.Mutex
	pending nested.Map[Key, string, expectation] // by name of the work
}

type expectation struct {
	uid        types.UID
	generation int64
	nudges     int
	verb       plan.Verb
	until      time.Time
}

// A creation or a nudge is not waited for after patience: it may have been undone. A patch or a
// deletion shows in every later state of the work, so it is waited for as long as a watch may be
// late. Based on an old state, an object could leave two works, each because the other one has it.
const (
	patience      = 10 * time.Second
	patienceWatch = 10 * time.Minute
)

func (e *expectations) expect(key Key, a *plan.Action, r plugin.Receipt, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	until := now.Add(patience)
	if a.Verb == plan.Patch || a.Verb == plan.Delete {
		until = now.Add(patienceWatch)
	}
	if before := e.pending[key][a.Name].until; before.After(until) {
		until = before
	}
	e.pending.Set(key, a.Name, expectation{uid: r.UID, generation: r.Generation, nudges: a.Nudges, verb: a.Verb, until: until})
}

// any reports whether some write of ours may not be reported yet.
func (e *expectations) any(key Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.pending[key]) > 0
}

// unmet reports whether some write of ours does not show in these works yet. It forgets the writes
// that do.
func (e *expectations) unmet(key Key, works []*plan.Work, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	pending := e.pending[key]
	maps.DeleteFunc(pending, func(name string, want expectation) bool {
		if now.After(want.until) {
			return true
		}
		i := slices.IndexFunc(works, func(w *plan.Work) bool { return w.Name == name })
		switch {
		case i < 0:
			return want.verb != plan.Create // a work that is gone changes no more; a work that was created must still appear
		case want.verb == plan.Delete:
			return works[i].Deleting
		}
		return works[i].UID != want.uid || works[i].Generation >= want.generation && works[i].Nudges >= want.nudges
	})
	if len(pending) == 0 {
		delete(e.pending, key)
	}
	return len(pending) > 0
}
