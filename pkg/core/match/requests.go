package match

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Requests is what all policies together ask for the status of one object.
type Requests struct {
	// Known is false while something that could change the answer has not been read since the start: the object's
	// resource, the policies, the Namespaces, or where policies that want its status deliver to. What is said below is then true as far as it goes, and
	// nothing may be taken back because of what is missing in it (invariant 1).
	Known bool
	// Singleton tells whether a policy that selects the object wants the status of the one cluster it goes to.
	Singleton bool
	// SingletonClusters are the destinations of all policies that do, sorted. Shared: do not change it.
	SingletonClusters []string
	// MultiWEC tells whether a policy that selects the object wants the statuses of all clusters aggregated.
	MultiWEC bool
	// MultiWECClusters are the destinations of all policies that do, sorted. Shared: do not change it.
	MultiWECClusters []string
}

// Observer is told what may have changed in the answers of Index.Requests. Its methods are called by the goroutine that
// changed the Index, after the change and outside its lock: they may ask the Index, and must not block.
type Observer interface {
	// OnRequests names objects whose Requests may have changed. The slice is the Observer's.
	OnRequests(refs []objref.Ref)
	// OnKnown says that Requests.Known may have become true for all objects of that resource; for the zero GroupResource,
	// for all objects.
	OnKnown(gr schema.GroupResource)
}
