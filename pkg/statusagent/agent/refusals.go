package agent

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

const (
	// minRefusal is how long a resource that the agent may not read is not read again; doubled each
	// time, up to maxRefusal. The right to read a kind that is new in the cluster comes a moment
	// after its first object, and an API server that starts refuses everybody for a moment.
	minRefusal = time.Second
	maxRefusal = 10 * time.Minute
	// refusalEnds is how long after a new attempt a refusal is not its response, but another one.
	refusalEnds = time.Minute
)

// refusals has the resources of the WEC that the agent may not read. They are not watched:
// client-go would read each of them every 30 s to 60 s forever. It is safe for concurrent use.
type refusals struct {
	mu      sync.Mutex
	refused map[schema.GroupResource]refusal
}

// refusal says until when a resource is not read, and how long that is.
type refusal struct {
	until time.Time
	delay time.Duration
}

func newRefusals() *refusals {
	return &refusals{refused: map[schema.GroupResource]refusal{}}
}

// add records that the WEC refused to list or watch a resource.
func (r *refusals) add(gr schema.GroupResource, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, before := r.refused[gr]
	delay := minRefusal
	switch {
	case !before || now.Sub(last.until) > refusalEnds:
	case last.until.After(now):
		return // the response to a request that was on its way
	default:
		delay = min(2*last.delay, maxRefusal)
	}
	r.refused[gr] = refusal{until: now.Add(delay), delay: delay}
}

// forget makes all resources be read again at once.
func (r *refusals) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.refused)
}

// without removes the resources that are not to be read now from the map, and returns it.
func (r *refusals) without(resources map[schema.GroupResource]dynamicinformer.Resource, now time.Time) map[schema.GroupResource]dynamicinformer.Resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(resources, func(gr schema.GroupResource, _ dynamicinformer.Resource) bool {
		return r.refused[gr].until.After(now)
	})
	return resources
}

// next returns how long no resource is to be read again, 0 if none was refused. It drops refusals
// that have ended.
func (r *refusals) next(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	var least time.Duration
	for gr, last := range r.refused {
		left := last.until.Sub(now)
		switch {
		case -left > refusalEnds:
			delete(r.refused, gr)
		case left > 0 && (least == 0 || left < least):
			least = left
		}
	}
	return least
}
