package binding

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// failing are the resources whose objects could not be read, since the last time that they were. It
// is safe for concurrent use.
type failing struct {
	mu        sync.Mutex
	resources map[schema.GroupResource]bool
}

func (f *failing) set(gr schema.GroupResource, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !fails:
		delete(f.resources, gr)
	case f.resources == nil:
		f.resources = map[schema.GroupResource]bool{gr: true}
	default:
		f.resources[gr] = true
	}
}

func (f *failing) has(gr schema.GroupResource) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resources[gr]
}
