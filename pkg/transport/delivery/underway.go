package delivery

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/starlinghq/starling/pkg/core/plan"
)

// deliveries are the keys whose deliveries are under way. What the works of such a Binding show may
// be over: its delivery may have decided to take an object out, and not have written that yet. An
// owner that relies on the works of another one must know.
type deliveries struct {
	mu   sync.Mutex
	keys map[Key]bool
	// uncertain are keys of which it is not known whether a write took place, with how long that is
	// taken into account.
	uncertain map[Key]time.Time
}

// begin records that a delivery begins, before it reads anything. The caller calls the function
// that it returns when the delivery has ended.
func (d *deliveries) begin(key Key) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys, d.uncertain = map[Key]bool{}, map[Key]time.Time{}
	}
	d.keys[key] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.keys, key)
	}
}

// doubt records that a write was not answered. It may have taken place, and will show some time,
// unless it was not sent. What a creation adds does no harm.
func (d *deliveries) doubt(key Key, a *plan.Action, err error, now time.Time) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || a.Verb == plan.Create || a.Verb == plan.Nudge {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys[key] {
		d.uncertain[key] = now.Add(patience)
	}
}

// has reports whether a delivery is under way, or may have written what is not known.
func (d *deliveries) has(key Key, now time.Time) bool {
	d.mu.Lock()
	underWay := d.keys[key]
	d.mu.Unlock()
	return underWay || d.doubted(key, now) // a delivery that ended in between has recorded its doubts
}

// doubted reports whether a delivery may have written what is not known.
func (d *deliveries) doubted(key Key, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, uncertain := d.uncertain[key]
	if uncertain && now.After(until) {
		delete(d.uncertain, key)
		return false
	}
	return uncertain
}
