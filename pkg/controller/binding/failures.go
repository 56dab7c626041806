package binding

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
)

// failures are the resources and API groups that cannot be read, and since when. It is safe for
// concurrent use.
type failures struct {
	clock clock.PassiveClock

	mu        sync.Mutex
	resources map[schema.GroupResource]failure
	groups    map[string]failure
}

// failure is since when something cannot be read, and the first error.
type failure struct {
	since time.Time
	err   string
}

func newFailures(c clock.PassiveClock) *failures {
	return &failures{clock: c, resources: map[schema.GroupResource]failure{}, groups: map[string]failure{}}
}

// maxError bounds an error in a condition.
const maxError = 300

// set notes that a resource cannot be read. It reports whether that is new.
func (f *failures) set(gr schema.GroupResource, err error) (isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.resources[gr]; known {
		return false
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		err = status // what an informer adds is about its own types
	}
	f.resources[gr] = failure{since: f.clock.Now(), err: text.Clip(text.OneLine(err.Error()), maxError)}
	return true
}

// forget notes that a resource was read, or is no longer watched. It reports whether it was
// failing.
func (f *failures) forget(gr schema.GroupResource) (failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, failed = f.resources[gr]
	delete(f.resources, gr)
	return failed
}

// of returns the failures of resources, and of those API groups, of which nothing can be read.
func (f *failures) of(groups []string) (ofResources map[schema.GroupResource]failure, ofGroups map[string]failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.groups, func(group string, _ failure) bool { return !slices.Contains(groups, group) })
	for _, group := range groups {
		if _, known := f.groups[group]; !known {
			f.groups[group] = failure{since: f.clock.Now(), err: "its API server does not respond"}
		}
	}
	return maps.Clone(f.resources), maps.Clone(f.groups)
}

// isSettled reports whether something has been failing for so long that nothing waits for it any
// more.
func (f *failures) isSettled(of failure) bool {
	return !of.since.IsZero() && f.clock.Since(of.since) >= corebinding.RecheckUnread
}

// onFailed notes that a list or watch of a resource failed.
func (c *Controller) onFailed(r dynamicinformer.Resource, err error) {
	if c.config.Index.Known(r.GroupResource()) && !dynamicinformer.Refused(err) {
		return // it is read again soon, or nothing is known about it
	}
	if c.failures.set(r.GroupResource(), err) {
		klog.Background().Error(err, "Cannot read the objects of a resource; all others are delivered", logging.Resource, r.GroupVersionResource)
		c.enqueueAll()
	}
}

// onRecovered notes that a resource that failed was read again.
func (c *Controller) onRecovered(r dynamicinformer.Resource) {
	if c.failures.forget(r.GroupResource()) {
		klog.Background().Info("Objects of a resource can be read again", logging.Resource, r.GroupVersionResource)
		c.enqueueAll()
	}
}
