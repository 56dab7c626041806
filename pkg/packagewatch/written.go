package packagewatch

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Written is what a write made of an object, until an informer shows it. What is planned on an older state would be written twice, or
// refused.
type Written struct {
	// Version is the resourceVersion that was written.
	Version string
	// Deleted is the UID of what was deleted, as the informer knows it.
	Deleted types.UID
	// Created tells that the object was there already when it was to be created, in a version that is not known.
	Created bool
	At      time.Time
}

// patience is how long a write is waited for: an informer that missed it, since the object was deleted and made again, say, is believed then.
const patience = 5 * time.Second

// shownBy tells whether an informer that has an object, or none, shows what was written.
func (w *Written) shownBy(obj metav1.Object) bool {
	switch {
	case w.Deleted != "":
		return obj == nil || obj.GetUID() != w.Deleted || obj.GetDeletionTimestamp() != nil
	case obj == nil:
		return false
	case w.Created:
		return true
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), w.Version)
	return err != nil || order >= 0
}

// Writes are what was written and may not be shown yet, by a name of the object. They are not safe for concurrent use.
type Writes map[string]Written

// Behind tells for how long to wait for the informers to show it; 0 if they do, or if that took too long. What is shown is forgotten. Shown
// returns what an informer has; nil for nothing.
func (w Writes) Behind(now time.Time, shown func(name string) metav1.Object) time.Duration {
	var wait time.Duration
	for name, written := range w {
		if left := patience - now.Sub(written.At); left > 0 && !written.shownBy(shown(name)) {
			wait = max(wait, left)
		} else {
			delete(w, name)
		}
	}
	return wait
}
