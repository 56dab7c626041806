package delivery

import (
	"slices"
	"sync"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// fights remember the objects that we and somebody else delivered at the same time. When the other
// side has stopped, the cluster may hold what it wrote last, and look at our work only minutes
// later: the work is nudged. That is forgotten by a restart, and the cluster's own look heals it.
type fights struct {
	mu      sync.Mutex
	objects map[Key]map[objref.Ref]bool
}

// over notes which objects are fought over, and returns the works that hold those that are no more.
func (f *fights) over(key Key, conflicts []plan.Conflict, works []*plan.Work) []*plan.Work {
	now := map[objref.Ref]bool{}
	for i := range conflicts {
		if c := &conflicts[i]; c.Ours && c.With.Delivers() {
			now[c.Ref] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.objects[key]
	if len(now) == 0 {
		delete(f.objects, key)
	} else {
		if f.objects == nil {
			f.objects = map[Key]map[objref.Ref]bool{}
		}
		f.objects[key] = now
	}
	var won []*plan.Work
	for _, work := range works {
		if !work.Deleting && slices.ContainsFunc(work.Items, func(item plan.Item) bool {
			return before[item.Ref] && !now[item.Ref] && !item.Observe
		}) {
			won = append(won, work)
		}
	}
	return won
}
