package delivery

import (
	"sync"

	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// reports holds what agents reported of objects in clusters. It is safe for concurrent
// use.
type reports struct {
	mu      sync.RWMutex
	state   plugin.Reports
	partial map[string]bool                               // mailboxes of which a part is read
	known   nested.Map[string, objref.Ref, plugin.Report] // by mailbox
}

// set stores a report; nil removes it. It reports whether that is a change.
func (r *reports) set(mailbox string, ref objref.Ref, report *plugin.Report) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.known[mailbox][ref]
	if report == nil {
		r.known.Delete(mailbox, ref)
		return known
	}
	if known && before == *report {
		return false
	}
	r.known.Set(mailbox, ref, *report)
	return true
}

// setState reports whether the state is another one now.
func (r *reports) setState(state plugin.Reports) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.state != state
	r.state = state
	return changed
}

// setPartial records whether the reports of a mailbox are a part. It reports whether that is a
// change.
func (r *reports) setPartial(mailbox string, partial bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.partial[mailbox]
	switch {
	case !partial:
		delete(r.partial, mailbox)
	case r.partial == nil:
		r.partial = map[string]bool{mailbox: true}
	default:
		r.partial[mailbox] = true
	}
	return before != partial
}

// missing returns what follows from a missing report of a mailbox.
func (r *reports) missing(mailbox string) plugin.Reports {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.state == plugin.ReportsRead && r.partial[mailbox] {
		return plugin.ReportsPartial
	}
	return r.state
}

func (r *reports) of(mailbox string, ref objref.Ref) (plugin.Report, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	report, ok := r.known[mailbox][ref]
	return report, ok
}
