package binding

import (
	"maps"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynwatch"
)

// remembered is for how long a departure counts. What happened before is as if it had not been seen, as after a restart: the
// safety valve then takes it for an accident.
const remembered = 10 * time.Minute

// departures tell objects that somebody deleted from those that vanish with their Namespace or kind. It is safe for concurrent
// use.
type departures struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// deleted are the objects that were seen to go, namespaces and kinds those that are going or gone: since when.
	deleted    leavers[objref.Ref]
	namespaces leavers[string]
	kinds      leavers[schema.GroupResource]
}

func newDepartures(c clock.PassiveClock) *departures { return &departures{clock: c} }

// leavers remember since when something departs.
type leavers[K comparable] struct {
	since map[K]time.Time
	// sweep is the number at which those are forgotten that count no more. It is twice as many as were left the last time, so
	// that each departure is looked at a few times at most.
	sweep int
}

// mark notes that something departs, or that it is there.
func (l *leavers[K]) mark(key K, stays bool, now time.Time) {
	if stays {
		delete(l.since, key)
		return
	}
	if _, known := l.since[key]; known {
		return
	}
	const few = 4096
	if len(l.since) >= max(l.sweep, few) {
		maps.DeleteFunc(l.since, func(_ K, since time.Time) bool { return now.Sub(since) > remembered })
		l.sweep = 2 * len(l.since)
	}
	if l.since == nil {
		l.since = map[K]time.Time{}
	}
	l.since[key] = now
}

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// note notes a change of an object of the WDS.
func (d *departures) note(r dynwatch.Resource, before, after metav1.Object) {
	obj := after
	if after == nil {
		obj = before
	}
	ref := objref.New(r.GroupResource(), obj.GetNamespace(), obj.GetName())
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	stays := after != nil && after.GetDeletionTimestamp() == nil
	switch r.GroupResource() {
	case namespaces:
		d.namespaces.mark(ref.Name, stays, now)
	case definitions:
		resource, group, _ := strings.Cut(ref.Name, ".")
		d.kinds.mark(schema.GroupResource{Group: group, Resource: resource}, stays, now)
	}
	d.deleted.mark(ref, after != nil, now)
}

// byItself tells whether the object was seen to be deleted, and not with its Namespace or kind.
func (d *departures) byItself(ref objref.Ref) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recent(d.deleted.since[ref]) && !d.going(ref)
}

// withOthers tells whether the object's Namespace or kind is going or gone.
func (d *departures) withOthers(ref objref.Ref) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.going(ref)
}

func (d *departures) going(ref objref.Ref) bool {
	gr := ref.GroupResource()
	switch gr {
	case namespaces:
		return d.recent(d.namespaces.since[ref.Name])
	case definitions:
		resource, group, _ := strings.Cut(ref.Name, ".")
		return d.recent(d.kinds.since[schema.GroupResource{Group: group, Resource: resource}])
	}
	return d.recent(d.namespaces.since[ref.Namespace]) || d.recent(d.kinds.since[gr])
}

func (d *departures) recent(since time.Time) bool {
	return !since.IsZero() && d.clock.Since(since) <= remembered
}
