package binding

import (
	"errors"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// ownWrites knows whether a cache has our last writes. A decision on an older state would be
// refused as a conflict at best. It is safe for concurrent use.
type ownWrites struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	pending map[writeKey]pendingWrite
	// uncertain are failed writes that may have been made nevertheless, since when.
	uncertain map[writeKey]time.Time
}

// writeKey identifies what was written.
type writeKey struct {
	binding bool
	name    string
}

func bindingWrite(name string) writeKey { return writeKey{binding: true, name: name} }
func policyWrite(name string) writeKey  { return writeKey{name: name} }

type pendingWrite struct {
	version string
	at      time.Time
}

// expireWrites is how long a cache may lack a write. Afterwards the cache is right: it missed the
// write, because the object was deleted and re-created between two lists, say.
const expireWrites = 5 * time.Second

func newOwnWrites(c clock.PassiveClock) *ownWrites {
	return &ownWrites{clock: c, pending: map[writeKey]pendingWrite{}, uncertain: map[writeKey]time.Time{}}
}

// wrote notes the version that a write returned.
func (o *ownWrites) wrote(what writeKey, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[what] = pendingWrite{version, o.clock.Now()}
	delete(o.uncertain, what)
}

// failed notes that a write failed, unless the API server refused it.
func (o *ownWrites) failed(what writeKey, err error) {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uncertain[what] = o.clock.Now()
}

// isUncertain reports whether the last write failed a moment ago and may have been made
// nevertheless.
func (o *ownWrites) isUncertain(what writeKey) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	at, ok := o.uncertain[what]
	return ok && o.clock.Since(at) <= expireWrites
}

// seen notes the version that a cache has.
func (o *ownWrites) seen(what writeKey, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pending, ok := o.pending[what]; ok {
		if order, err := resourceversion.CompareResourceVersion(version, pending.version); err != nil || order >= 0 {
			delete(o.pending, what)
		}
	}
}

// forget drops the note of an object that is gone.
func (o *ownWrites) forget(what writeKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, what)
	delete(o.uncertain, what)
}

// behind reports whether the cache, which has that version of the object or none (""), lacks our
// last write.
func (o *ownWrites) behind(what writeKey, version string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	pending, ok := o.pending[what]
	if !ok || o.clock.Since(pending.at) > expireWrites {
		return false
	}
	if version == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(version, pending.version)
	return err == nil && order < 0
}
