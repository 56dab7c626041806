package dynamicinformer

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Wanted is a Source whose owner sets the wanted resources. It is safe for concurrent use.
type Wanted struct {
	mu        sync.Mutex
	resources map[schema.GroupResource]Resource
	changed   chan struct{}
}

// NewWanted returns a Source that wants nothing.
func NewWanted() *Wanted {
	return &Wanted{changed: make(chan struct{}, 1)}
}

// Set replaces the wanted resources. The Source owns the map from now on. An equal map changes
// nothing.
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

// notify puts a value into a one-slot channel; a value that is in it already has the same meaning.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}
