package informers

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// PendingWrite is the result of a write that an informer has not observed yet. A plan that is based
// on the older state would write again, or be refused.
type PendingWrite struct {
	// Version is the resourceVersion that was written.
	Version string
	// Deleted is the UID of the deleted object, as the informer has it.
	Deleted types.UID
	// AlreadyExists is true if a creation failed because the object exists, at an unknown
	// resourceVersion.
	AlreadyExists bool
	At            time.Time
}

// pendingTimeout is how long to wait until the informer observes a write. After that the informer
// is trusted: it may have missed the write, for example because the object was deleted and
// re-created.
const pendingTimeout = 5 * time.Second

// isObservedIn reports whether the informer's object, or nil, includes the write.
func (w *PendingWrite) isObservedIn(obj metav1.Object) bool {
	switch {
	case w.Deleted != "":
		return obj == nil || obj.GetUID() != w.Deleted || obj.GetDeletionTimestamp() != nil
	case obj == nil:
		return false
	case w.AlreadyExists:
		return true
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), w.Version)
	return err != nil || order >= 0
}

// PendingWrites has the writes that informers may not have observed yet, by the name of the object.
// It is not safe for concurrent use.
type PendingWrites map[string]PendingWrite

// Wait returns how long to wait until the informers observe all writes; 0 if they have, or after
// the timeout. Observed writes are removed. The function shown returns the informer's object, or
// nil.
func (w PendingWrites) Wait(now time.Time, shown func(name string) metav1.Object) time.Duration {
	var wait time.Duration
	for name, written := range w {
		if left := pendingTimeout - now.Sub(written.At); left > 0 && !written.isObservedIn(shown(name)) {
			wait = max(wait, left)
		} else {
			delete(w, name)
		}
	}
	return wait
}
