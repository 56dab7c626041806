package status

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// What is returned is put right when somebody else changes it. Somebody who in turn puts right what we write, a controller that runs in
// the WDS, say, would have both write without end, as fast as an API server lets them. So who is put right again and again is put
// right more and more seldom, and the user is told.
const (
	// patient is how often an object is put right at once.
	patient = 5
	// firstPause is how long is waited then; it doubles each time, up to lastPause.
	firstPause, lastPause = 250 * time.Millisecond, time.Minute
	// peace is how long nothing must have been put right for a contest to be over.
	peace = 5 * time.Minute

	// fieldManager is the name under which the binding-controller writes.
	fieldManager = "binding-controller"
)

// contest is an object that was put right.
type contest struct {
	count  int
	last   time.Time
	writer string // the other one
}

// pause returns how long an object is left alone that somebody else writes as well. It is called with the mutex held.
func (c *Controller) pause(ref objref.Ref) time.Duration {
	of, ok := c.contests[ref]
	if !ok || of.count < patient {
		return 0
	}
	return min(firstPause<<min(of.count-patient, 16), lastPause) - c.config.Clock.Since(of.last)
}

// contested notes that the object was looked at, and whether it was put right: changed again by us to what it held before. It returns
// what to tell the user, "" for nothing.
func (c *Controller) contested(ref objref.Ref, writer string, putRight bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	of, ok := c.contests[ref]
	if ok && now.Sub(of.last) >= peace {
		delete(c.contests, ref)
		of = contest{}
	}
	if putRight {
		of.count++
		of.last, of.writer = now, writer
		c.contests[ref] = of
	}
	if of.count < patient {
		return ""
	}
	c.queue.AddAfter(ref, of.last.Add(peace).Sub(now)) // to tell that it is over
	return fmt.Sprintf("the status of %s is written by %q as well, and both overwrite each other: have one of them not do it; until then it is "+
		"returned more and more seldom, at last once a minute", ref, of.writer)
}

// both puts texts together.
func both(texts ...string) string {
	var some []string
	for _, text := range texts {
		if text != "" {
			some = append(some, text)
		}
	}
	return strings.Join(some, "; ")
}

// same tells whether what the object holds is what it held before.
func (h held) same(now held) bool {
	_, changed := corestatus.MergePatch(h.Status, now.Status)
	return !changed && maps.Equal(h.Labels, now.Labels)
}

// otherWriter returns who wrote the object last, as its API server has it, besides the binding-controller.
func otherWriter(obj *unstructured.Unstructured) string {
	name, last := "somebody", time.Time{}
	for _, entry := range obj.GetManagedFields() {
		if entry.Time != nil && !entry.Time.Time.Before(last) && entry.Manager != fieldManager {
			name, last = entry.Manager, entry.Time.Time
		}
	}
	return name
}
