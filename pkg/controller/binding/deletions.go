package binding

import (
	"maps"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// expireDeletions is how long a deletion counts. An older one is as one that was not observed, as
// after a restart: the removal block then treats it as an accident.
const expireDeletions = 10 * time.Minute

// deletions distinguish objects that were deleted one by one from those that vanish with their
// Namespace or kind. It is safe for concurrent use.
type deletions struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// deleted, namespaces and kinds are those that are being deleted, or are gone.
	deleted    times[objref.Ref]
	namespaces times[string]
	kinds      times[schema.GroupResource]
}

func newDeletions(c clock.PassiveClock) *deletions { return &deletions{clock: c} }

// times has since when something is being deleted.
type times[K comparable] struct {
	since map[K]time.Time
	// sweep is the size at which expired deletions are dropped. It is twice the size that the last
	// sweep left, so that each deletion is visited a few times at most.
	sweep int
}

// set notes that something is being deleted, or that it exists.
func (t *times[K]) set(key K, exists bool, now time.Time) {
	if exists {
		delete(t.since, key)
		return
	}
	if _, known := t.since[key]; known {
		return
	}
	const few = 4096
	if len(t.since) >= max(t.sweep, few) {
		maps.DeleteFunc(t.since, func(_ K, since time.Time) bool { return now.Sub(since) > expireDeletions })
		t.sweep = 2 * len(t.since)
	}
	if t.since == nil {
		t.since = map[K]time.Time{}
	}
	t.since[key] = now
}

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// observe notes a change of an object of the WDS.
func (d *deletions) observe(r dynamicinformer.Resource, before, after metav1.Object) {
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
		d.namespaces.set(ref.Name, stays, now)
	case definitions:
		resource, group, _ := strings.Cut(ref.Name, ".")
		d.kinds.set(schema.GroupResource{Group: group, Resource: resource}, stays, now)
	}
	d.deleted.set(ref, stays, now)
}

// of returns which of the objects were deleted one by one, and which are about to vanish with their
// Namespace or kind, or have.
func (d *deletions) of(refs []objref.Ref) corebinding.Departed {
	d.mu.Lock()
	defer d.mu.Unlock()
	departed := corebinding.Departed{Deleted: map[objref.Ref]bool{}, WithOthers: map[objref.Ref]bool{}}
	for _, ref := range refs {
		switch {
		case d.withOthers(ref):
			departed.WithOthers[ref] = true
		case d.recent(d.deleted.since[ref]):
			departed.Deleted[ref] = true
		}
	}
	return departed
}

func (d *deletions) withOthers(ref objref.Ref) bool {
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

func (d *deletions) recent(since time.Time) bool {
	return !since.IsZero() && d.clock.Since(since) <= expireDeletions
}
