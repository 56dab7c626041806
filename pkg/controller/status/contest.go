package status

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// A returned status is restored when another client changes it. If that client restores its own
// status in turn, as a controller that runs in the WDS does, both would write without end. So an
// object that is restored again and again is restored less and less often, and the user is
// notified.
const (
	// patient is how often an object is restored at once.
	patient = 5
	// firstPause is the delay after that; it doubles each time, up to lastPause.
	firstPause, lastPause = 250 * time.Millisecond, time.Minute
	// peace is how long nothing must have been restored for a contest to end.
	peace = 5 * time.Minute

	// fieldManager is the field manager of the binding-controller.
	fieldManager = "binding-controller"
)

// contest is an object that was restored.
type contest struct {
	count  int
	last   time.Time
	writer string // the other one
}

// pause returns how long an object in a contest is not written. The caller holds the mutex.
func (c *Controller) pause(ref objref.Ref) time.Duration {
	of, ok := c.contests[ref]
	if !ok || of.count < patient {
		return 0
	}
	return min(firstPause<<min(of.count-patient, 16), lastPause) - c.config.Clock.Since(of.last)
}

// contested records a sync of the object, and whether it was restored: changed to what it held
// after the sync before. It returns the text for the user, "" for none.
func (c *Controller) contested(ref objref.Ref, writer string, restored bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	of, ok := c.contests[ref]
	if ok && now.Sub(of.last) >= peace {
		delete(c.contests, ref)
		of = contest{}
	}
	if restored {
		of.count++
		of.last, of.writer = now, writer
		c.contests[ref] = of
	}
	if of.count < patient {
		return ""
	}
	c.queue.AddAfter(ref, of.last.Add(peace).Sub(now)) // to report that it has ended
	return conflictText(ref, of.writer)
}

func conflictText(ref objref.Ref, writer string) string {
	return fmt.Sprintf("the status of %s is also written by %q, and each overwrites the other: let only one of them write it; until then "+
		"Starling returns the status less and less often, at least once a minute", ref, writer)
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), "; ")
}

// same reports whether the object holds what it held before.
func (h held) same(now held) bool {
	_, changed := corestatus.MergePatch(h.Status, now.Status)
	return !changed && maps.Equal(h.Labels, now.Labels)
}

// otherWriter returns the field manager that wrote the object last, besides the binding-controller.
func otherWriter(obj *unstructured.Unstructured) string {
	name, last := "somebody", time.Time{}
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && !entry.Time.Time.Before(last) && entry.Manager != fieldManager {
			name, last = entry.Manager, entry.Time.Time
		}
	}
	return name
}
