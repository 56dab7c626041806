package binding

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
)

// ownWrites knows whether a cache has our last writes. A decision on an older state would be
// refused as a conflict at best. That time passes says nothing: a watch may be late by minutes, and
// the cache of an object that is gone never shows the write. So a write is awaited until the cache
// shows it, or a read from the API server says that the cache is right. It is safe for concurrent
// use.
type ownWrites struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	pending map[writeKey]pendingWrite
	// uncertain are failed writes that may have been made nevertheless.
	uncertain map[writeKey]uncertainWrite
}

// writeKey identifies what was written.
type writeKey struct {
	binding bool
	name    string
}

func bindingWrite(name string) writeKey { return writeKey{binding: true, name: name} }
func policyWrite(name string) writeKey  { return writeKey{name: name} }

func (k writeKey) resource() schema.GroupVersionResource {
	if k.binding {
		return controlv1alpha1.Bindings
	}
	return controlv1alpha1.BindingPolicies
}

type pendingWrite struct {
	version string
	// at is when that version was written, or read.
	at time.Time
}

type uncertainWrite struct {
	// guard is the version that the write was to change, "" for a creation. It cannot be made any
	// more when there is another one.
	guard string
	// at is when it failed, read when the object was read last.
	at, read time.Time
}

const (
	// confirmAfter is how long a cache may lack a write until the object is read from the API
	// server, and the time between two such reads.
	confirmAfter = 5 * time.Second
	// unansweredFor is how long a write may be under way whose answer was lost. No API server
	// carries out a request that is older.
	unansweredFor = 2 * time.Minute
)

func newOwnWrites(c clock.PassiveClock) *ownWrites {
	return &ownWrites{clock: c, pending: map[writeKey]pendingWrite{}, uncertain: map[writeKey]uncertainWrite{}}
}

// wrote notes the version that a write returned.
func (o *ownWrites) wrote(what writeKey, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending[what] = pendingWrite{version, o.clock.Now()}
	delete(o.uncertain, what)
}

// failed notes that a write to an object of that version failed, unless the API server refused it.
func (o *ownWrites) failed(what writeKey, guard string, err error) {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Code < http.StatusInternalServerError {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	o.uncertain[what] = uncertainWrite{guard: guard, at: now, read: now}
}

// isUncertain reports whether the last write failed and may have been made nevertheless, or may
// still be made, since the cache has the version that it was to change.
func (o *ownWrites) isUncertain(what writeKey, version string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	u, ok := o.uncertain[what]
	if ok && later(version, u.guard) {
		delete(o.uncertain, what)
		return false
	}
	return ok
}

// seen notes the version that a cache has.
func (o *ownWrites) seen(what writeKey, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if pending, ok := o.pending[what]; ok && !later(pending.version, version) {
		delete(o.pending, what)
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
	return ok && later(pending.version, version)
}

// overdue reports whether the object is to be read from the API server, since the cache, which has
// that version, may have lacked a write for long.
func (o *ownWrites) overdue(what writeKey, version string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	pending, awaited := o.pending[what]
	u, uncertain := o.uncertain[what]
	return awaited && later(pending.version, version) && o.clock.Since(pending.at) >= confirmAfter ||
		uncertain && o.clock.Since(u.read) >= confirmAfter
}

// read notes the version that the API server has of an object, of which the cache had the other one
// before. It reports whether the cache may be relied on now.
func (o *ownWrites) read(what writeKey, cached, live string) (settled bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	if u, ok := o.uncertain[what]; ok {
		switch {
		case live != cached && live != "": // it is awaited from here on
			o.pending[what] = pendingWrite{live, now}
			delete(o.uncertain, what)
		case live == cached && (later(live, u.guard) || o.clock.Since(u.at) >= unansweredFor):
			delete(o.uncertain, what)
		default:
			u.read = now
			o.uncertain[what] = u
		}
	}
	if pending, ok := o.pending[what]; ok {
		switch {
		case live == cached:
			delete(o.pending, what)
		case live != "":
			o.pending[what] = pendingWrite{live, now}
		default: // the cache is about to forget it
			o.pending[what] = pendingWrite{pending.version, now}
		}
	}
	_, awaited := o.pending[what]
	_, uncertain := o.uncertain[what]
	return !awaited && !uncertain
}

// later reports whether a version of an object is later than another one; "" is none. Versions that
// cannot be compared are not.
func later(version, than string) bool {
	if version == "" || than == "" {
		return version != ""
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// ownedBy returns all Bindings of a policy that the cache has.
func (c *Controller) ownedBy(policy *controlv1alpha1.BindingPolicy) []*controlv1alpha1.Binding {
	bindings := c.overflow(policy)
	if first := c.binding(policy.Name); first != nil {
		bindings = append(bindings, first)
	}
	return bindings
}

// written yields what a sync of a policy may have written, with the version that the cache has.
func (c *Controller) written(policy *controlv1alpha1.BindingPolicy) iter.Seq2[writeKey, string] {
	// Of several new Bindings, a cache shows the last one last.
	next, _ := corebinding.NextOverflow(policy.Name, 1, c.namesLike(policy.Name))
	versions := map[writeKey]string{
		policyWrite(policy.Name): policy.ResourceVersion, bindingWrite(policy.Name): "", bindingWrite(next): "",
	}
	for _, b := range c.ownedBy(policy) {
		versions[bindingWrite(b.Name)] = b.ResourceVersion
	}
	return maps.All(versions)
}

// lacksDeletion reports whether we deleted a Binding and the cache does not show that.
func (c *Controller) lacksDeletion(b *controlv1alpha1.Binding) bool {
	return b.DeletionTimestamp == nil && c.memory.wasDeleted(b)
}

// behind reports whether the caches lack something of our last writes to a policy and its Bindings.
func (c *Controller) behind(policy *controlv1alpha1.BindingPolicy) bool {
	for what, version := range c.written(policy) {
		if c.writes.behind(what, version) {
			return true
		}
	}
	return slices.ContainsFunc(c.ownedBy(policy), c.lacksDeletion)
}

// confirmWrites reads from the API server what the caches have lacked for long of our last writes
// to a policy and its Bindings. Who waits for the policy is enqueued if the caches turn out to be
// right: no event follows then.
func (c *Controller) confirmWrites(ctx context.Context, name string) error {
	policy := c.policy(name)
	if policy == nil {
		return nil
	}
	lacksDeletion := map[writeKey]bool{}
	for _, b := range c.ownedBy(policy) {
		lacksDeletion[bindingWrite(b.Name)] = c.lacksDeletion(b)
	}
	for what, version := range c.written(policy) {
		if !lacksDeletion[what] && !c.writes.overdue(what, version) {
			continue
		}
		live, err := c.config.Live.Version(ctx, what.resource(), what.name)
		if err != nil {
			return fmt.Errorf("read %s %q, of which a watch may be late: %w", what.resource().Resource, what.name, err)
		}
		if lacksDeletion[what] && live == version {
			c.memory.setDeleted(what.name, "") // it is back, from a backup
		}
		if c.writes.read(what, version, live) {
			c.enqueueWaiters(name)
		}
	}
	return nil
}
