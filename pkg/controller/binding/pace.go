package binding

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

const (
	// betweenSets is the least time between two writes of one Binding: under load changes gather for so long.
	betweenSets = 100 * time.Millisecond
	// betweenVersions is the same if nothing but versions of objects changed: nobody waits for those.
	betweenVersions = time.Second
)

// pace keeps apart the writes of each Binding. It is safe for concurrent use.
type pace struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	wrote map[string]time.Time
}

func newPace(c clock.PassiveClock) *pace {
	return &pace{clock: c, wrote: map[string]time.Time{}}
}

// note says that the Binding was written now.
func (p *pace) note(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wrote[name] = p.clock.Now()
}

func (p *pace) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wrote, name)
}

// untilSet returns how long a change of the set must wait; not at all after quiet.
func (p *pace) untilSet(name string) time.Duration { return p.until(name, betweenSets) }

// untilVersions returns how long a change of versions alone must wait.
func (p *pace) untilVersions(name string) time.Duration { return p.until(name, betweenVersions) }

func (p *pace) until(name string, between time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrote, ok := p.wrote[name]
	if !ok {
		return 0
	}
	return max(0, between-p.clock.Since(wrote))
}

// ownWrites tells whether a cache has seen what we wrote last. A decision on an older state would be refused as a conflict
// at best. It is safe for concurrent use.
type ownWrites struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	pending map[written]pendingWrite
}

// written identifies what was written.
type written struct {
	binding bool
	name    string
}

func bindingWrite(name string) written { return written{binding: true, name: name} }
func policyWrite(name string) written  { return written{name: name} }

type pendingWrite struct {
	version string
	at      time.Time
}

// patience is how long a write is waited for: a cache that missed it, since the object was deleted and made again between
// two lists, say, is believed afterwards.
const patience = 5 * time.Second

func newOwnWrites(c clock.PassiveClock) *ownWrites {
	return &ownWrites{clock: c, pending: map[written]pendingWrite{}}
}

// wrote notes the version that a write made.
func (o *ownWrites) wrote(what written, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[what] = pendingWrite{version, o.clock.Now()}
}

// seen notes the version that a cache has.
func (o *ownWrites) seen(what written, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pending, ok := o.pending[what]; ok {
		if order, err := resourceversion.CompareResourceVersion(version, pending.version); err != nil || order >= 0 {
			delete(o.pending, what)
		}
	}
}

// forget drops the note: the object is gone.
func (o *ownWrites) forget(what written) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, what)
}

// behind tells whether the cache, which has that version of the object or none (""), lacks our last write.
func (o *ownWrites) behind(what written, version string) bool {
	if version != "" {
		o.seen(what, version)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	pending, ok := o.pending[what]
	if ok && o.clock.Since(pending.at) > patience {
		delete(o.pending, what)
		return false
	}
	return ok
}
