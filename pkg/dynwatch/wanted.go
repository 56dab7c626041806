package dynwatch

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Wanted is a Source whose owner says what is wanted. It is safe for concurrent use.
type Wanted struct {
	mu        sync.Mutex
	resources map[schema.GroupResource]Resource
	changed   chan struct{}
}

// NewWanted returns a Source that wants nothing.
func NewWanted() *Wanted {
	return &Wanted{changed: make(chan struct{}, 1)}
}

// Set replaces what is wanted. The map is the Source's from now on. The same as before changes nothing.
func (w *Wanted) Set(resources map[schema.GroupResource]Resource) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if maps.Equal(w.resources, resources) {
		return
	}
	w.resources = resources
	notify(w.changed)
}

// Resources implements Source.
func (w *Wanted) Resources() map[schema.GroupResource]Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resources
}

// Changed implements Source.
func (w *Wanted) Changed() <-chan struct{} { return w.changed }

// notify puts a value into a one-slot channel; one that is there already says the same.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
