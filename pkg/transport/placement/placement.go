package placement

import (
	"cmp"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// Placement is a Binding with the content of its objects: what its destinations should hold. It is
// immutable once published.
type Placement struct {
	// Name, UID and Generation are those of the Binding.
	Name       string
	UID        types.UID
	Generation int64
	// Deleting says that the Binding is being deleted: all its works are removed. It has no objects
	// and no destinations then.
	Deleting bool
	// Annotations are those of the Binding that the transport obeys.
	Annotations Annotations
	// Held is what Transactions held when the Placement was computed, of the objects that the
	// Binding lists or has delivered. It is for the status: Index.HoldAt is what counts.
	Held plan.Holds
	// Destinations are the names of the clusters.
	Destinations map[string]struct{}
	// Desired is what every destination should hold, before templates are expanded; nil while
	// Deleting. Two Placements of one Binding with the same Desired ask for the same.
	Desired *plan.Desired
	// Objects are those that Desired was built from.
	Objects map[objref.Ref]plan.Object
	// Templates are the compiled templates of the objects that have some.
	Templates map[objref.Ref]*customize.Template
	// Source is where the content comes from; see SourceOf.
	Source string
	// Provisional says that neither the content of some package nor all that was delivered of it is
	// known. Nothing may be written.
	Provisional bool
	// Refused is the number of objects of packages that cannot be delivered, and are not in
	// Desired. Incomplete says that there may be more, because a package could not be read.
	Refused    int
	Incomplete bool
	// Problems are what is wrong with objects at every destination. Sorted.
	Problems []string
	// Decided is when Desired was computed.
	Decided time.Time

	// settled says that all objects are known, and that the Placement changes only when something
	// changes of which it was made.
	settled bool
	// requested are the options that the annotations of objects ask for; objects without are left
	// out.
	requested map[objref.Ref]options.Requested
	// leaving is what the annotations of objects that are not listed any more, and that some work
	// may have, asked for last; while Deleting, of all of them. Those that could not be read are
	// left out.
	leaving map[objref.Ref]options.Requested
	// keeps is what must stay for the objects of the Binding that are to stay; kept is what must
	// for those of all Bindings of its policy.
	keeps, kept render.Kept
	// policy is the UID of the policy of the Binding, "" if it has none.
	policy types.UID
	// autoscalers are those that the Binding lists. On them depends how all Bindings of the policy
	// carry their objects.
	autoscalers *render.Scope
	// watched are the resources of the objects that the Binding lists itself, and of the
	// autoscalers of the others of its policy.
	watched map[schema.GroupResource]dynamicinformer.Resource
	// resources are those of all objects, including the objects of packages.
	resources map[schema.GroupResource]struct{}
}

// Lists reports whether a cluster is a destination.
func (p *Placement) Lists(cluster string) bool {
	_, ok := p.Destinations[cluster]
	return ok
}

// Orphans returns whether an object that leaves a destination is to stay there, if that is known.
// What the annotations of the Binding say can be changed while it is being deleted.
func (p *Placement) Orphans(ref objref.Ref) (orphan, known bool) {
	if object, listed := p.Objects[ref]; listed {
		return object.Orphan, object.Known
	}
	requested, known := p.leaving[ref]
	requested = requested.WithDefaults(p.Annotations.options)
	orphan = requested.Options().Orphan || options.NeverDeleted(ref) || p.kept[ref]
	// Of an object that could not be read, the wish to keep it counts, and none to delete it. A
	// Namespace stays with what stays in it also when that has left the works before.
	known = known && !p.Annotations.optionsInvalid && (requested.SetsRemoval() || !plan.IsPrerequisite(ref))
	return orphan, orphan || known
}

// scales returns the autoscalers that the Binding lists, never nil.
func (p *Placement) scales() *render.Scope { return cmp.Or(p.autoscalers, &render.Scope{}) }

// sameContent reports whether the mailboxes should hold the same for both. p may be nil.
func (p *Placement) sameContent(other *Placement) bool {
	return p != nil && p.UID == other.UID && p.Desired != nil && p.Provisional == other.Provisional &&
		p.Annotations.Hold.Equal(other.Annotations.Hold) && p.Held.Equal(other.Held) && maps.Equal(p.Destinations, other.Destinations) && maps.Equal(p.kept, other.kept) &&
		maps.EqualFunc(p.Objects, other.Objects, func(a, b plan.Object) bool {
			return a.Known == b.Known && a.Hash == b.Hash && a.Options == b.Options
		})
}
