package delivery

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/nested"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// deliveries are the keys whose deliveries are under way. What the works of such a Binding show may
// be over: its delivery may have decided to take an object out, and not have written that yet. An
// owner that relies on the works of another one must know.
type deliveries struct {
	mu   sync.Mutex
	keys map[Key]bool
	// doubts are writes that were not answered, by the name of the work.
	doubts nested.Map[Key, string, doubt]
}

// doubt is a write that may have been made, or may still be.
type doubt struct {
	verb plan.Verb
	// uid and generation are those of the work that it was to change.
	uid        types.UID
	generation int64
	at         time.Time
	// read is the generation that the work had in the ITS when the write was so old that no API
	// server carries it out any more; zero before that.
	read int64
}

// settled reports whether works show that the write was made, or that it cannot be made any more.
func (d *doubt) settled(name string, works []*plan.Work) bool {
	i := slices.IndexFunc(works, func(w *plan.Work) bool { return w.Name == name && w.UID == d.uid })
	if i < 0 || works[i].Deleting || d.verb == plan.Patch && works[i].Generation > d.generation {
		return true
	}
	return d.read > 0 && works[i].Generation >= d.read // it would show
}

// begin records that a delivery begins, before it reads anything. The caller calls the function
// that it returns when the delivery has ended.
func (d *deliveries) begin(key Key) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil {
		d.keys = map[Key]bool{}
	}
	d.keys[key] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.keys, key)
	}
}

// doubt records that a write failed. It may have been made, and will show some time, unless it was
// not sent, or refused. What a creation adds does no harm.
func (d *deliveries) doubt(key Key, a *plan.Action, err error, now time.Time) {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" || refused(err) || a.Verb == plan.Create || a.Verb == plan.Nudge {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys[key] {
		d.doubts.Set(key, a.Name, doubt{verb: a.Verb, uid: a.UID, generation: a.Generation, at: now})
	}
}

// has reports whether a delivery is under way, or may have written what these works do not show. It
// is for others: however long ago that was, they must not rely on the works.
func (d *deliveries) has(key Key, works []*plan.Work) bool {
	d.mu.Lock()
	underWay := d.keys[key]
	d.mu.Unlock()
	return underWay || len(d.doubted(key, works)) > 0 // a delivery that ended in between has recorded its doubts
}

// doubted returns the writes of a delivery that these works do not show, and that may have been
// made. It forgets the others.
func (d *deliveries) doubted(key Key, works []*plan.Work) map[string]doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, doubt := range d.doubts[key] {
		if doubt.settled(name, works) {
			d.doubts.Delete(key, name)
		}
	}
	return maps.Clone(d.doubts[key])
}

// read notes the generations that works have in the ITS. A write that is so old that no API server
// carries it out any more was made before that, or never: works of that generation show it.
func (d *deliveries) read(key Key, live map[types.UID]int64, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, doubt := range d.doubts[key] {
		if generation, exists := live[doubt.uid]; exists && now.Sub(doubt.at) >= unansweredFor {
			doubt.read = generation
			d.doubts.Set(key, name, doubt)
		}
	}
}
