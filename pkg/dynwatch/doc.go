// Package dynwatch watches resources that come and go at run time.
//
// A Source says which resources are wanted; a Set keeps one informer for each of them, starts and stops them by difference,
// and hands every change to one Handler. A Source that fails, or one resource that cannot be listed, never blocks or removes
// the others: what could not be read is said by Set.Resources, and what was known of it stays (invariant 1).
//
// One resource is watched in one version, so that an object served in several versions arrives once (invariant 5).
package dynwatch

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource of a space, in the version in which it is watched.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind of the resource's objects.
	Kind string
	// Namespaced tells whether the objects are in namespaces.
	Namespaced bool
}

// Source says which resources are wanted.
type Source interface {
	// Resources returns the wanted resources. The map is shared: do not change it. It does not block.
	Resources() map[schema.GroupResource]Resource
	// Changed receives a value after the wanted resources changed. Changes that come together are one value. There is one
	// receiver: the Set.
	Changed() <-chan struct{}
}

// Handler is told what happens to the objects of all resources of a Set.
//
// Calls for one resource come one after the other, calls for different resources concurrently. A Handler computes keys and
// enqueues; it must not block. Objects are shared: do not change them.
type Handler interface {
	// OnChange says that an object was added (before is nil), changed, or deleted (after is nil).
	OnChange(resource Resource, before, after metav1.Object)
	// OnSynced says that all objects that existed at the start of the watch were handed to OnChange. Objects that come from
	// other resources, or later, may still be under way.
	OnSynced(resource Resource)
	// OnStopped says that the resource is wanted no more: the space was seen not to serve it any longer, or the Source
	// dropped it. No OnChange for its objects was or will be called: whoever indexes them forgets them now.
	OnStopped(resource Resource)
}

// State is what a Set knows of one wanted resource.
type State struct {
	Resource
	// Synced tells whether everything that existed at the start was handed to the Handler.
	Synced bool
	// Err is the last error of the list or watch while not synced, "" otherwise.
	Err string
}
