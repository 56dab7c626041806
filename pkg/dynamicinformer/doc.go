// Package dynamicinformer watches resources that come and go at run time.
//
// A Source has the wanted resources. A Set runs one informer for each of them, starts and stops
// informers when the wanted resources change, and passes every change to its Handlers. A Source
// that fails, or one resource that cannot be listed, never blocks or removes the others:
// Set.Resources reports what cannot be read, and what was known of it stays (invariant 1). Kinds is
// a Set of the kinds in use.
//
// One resource is watched in one version, so that an object that is served in several versions
// arrives once (invariant 5).
package dynamicinformer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is a resource of a space, in the version in which it is watched.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind of the resource's objects.
	Kind string
	// Namespaced reports whether the objects are in namespaces.
	Namespaced bool
	// TracksContent reports whether the generation of the objects changes whenever anything but
	// their metadata and status does.
	TracksContent bool
}

// GroupKind returns the group and kind of the resource.
func (r Resource) GroupKind() schema.GroupKind { return schema.GroupKind{Group: r.Group, Kind: r.Kind} }

// Source has the resources that are wanted.
type Source interface {
	// Resources returns the wanted resources. The map is shared: do not change it. It does not
	// block.
	Resources() map[schema.GroupResource]Resource
	// Changed receives a value after the wanted resources changed. Changes at the same time are one
	// value. There is one receiver: the Set.
	Changed() <-chan struct{}
}

// Handler receives changes of the objects of all resources of a Set.
//
// Calls for one resource are sequential, calls for different resources concurrent. A Handler
// computes keys and enqueues; it must not block. Objects are shared: do not change them.
type Handler interface {
	// OnChange reports that an object was added (before is nil), changed, or deleted (after is
	// nil).
	OnChange(resource Resource, before, after metav1.Object)
	// OnSynced reports that OnChange received all objects that existed at the start of the watch.
	// Objects of other resources, and later ones, may still be on their way.
	OnSynced(resource Resource)
	// OnStopped reports that the resource is no longer wanted: the space no longer serves it, or
	// the Source dropped it. OnChange is not called for its objects: a Handler that indexes them
	// must forget them now.
	OnStopped(resource Resource)
}

// State is the state of one wanted resource in a Set.
type State struct {
	Resource
	// Synced reports whether the Handler received everything that existed at the start.
	Synced bool
	// Err is the last error of the list or watch while not synced, or, when it was synced, while
	// the API server refuses both; "" otherwise.
	Err string
}
