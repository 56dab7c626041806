package transport

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// ErrStale says that a work is not, or no more, what an Action was planned on. It is planned again once the Handler has heard
// what the work is now.
var ErrStale = errors.New("the work is not what was planned on")

// Plugin carries works into the mailboxes of one inventory and transport space. All works that it touches carry the identity of
// one WDS. It may tell of works of other WDSes as well, so that conflicts with them are found: of those it tells only what a
// plan.Stake is made of. Works of nobody do not exist for it.
//
// A Plugin keeps no queue and retries nothing: its caller does. It holds no content of works.
type Plugin interface {
	// Run watches works and destinations and tells the Handler, until the context ends; then it returns nil, and the Handler
	// is not called again. Trouble with the space is not an error: the Plugin goes on trying, and what the Handler was told
	// stands. An error is a defect of the program or its configuration.
	Run(ctx context.Context, handler Handler) error

	// Do carries out one Action: one write to the space. It blocks until the space has answered or the context ends. It is
	// called concurrently, but never for two Actions on one work. The Origin says for which Binding.
	//
	// After success the Handler hears of the work as the Receipt says; before or after Do returns. An error may leave it open
	// whether the write took place. Do returns an error that wraps ErrStale if the guards of the Action do not hold; errors of
	// an API server are wrapped, so apierrors.IsForbidden and the like see through.
	Do(ctx context.Context, origin Origin, action *plan.Action) (Receipt, error)
}

// Origin says where the content of a work comes from. All of it is written on the work.
type Origin struct {
	// Binding and BindingUID are the name and the UID of the Binding.
	Binding    string
	BindingUID types.UID
}

// Receipt says what a successful write made of a work.
type Receipt struct {
	// UID and Generation are those of the work after the write; zero after a deletion.
	UID        types.UID
	Generation int64
	// Recorded is the hash that was written with the spec; zero if none was.
	Recorded transform.Hash
}

// Handler is told what is in a space.
//
// Calls come one after the other for works, and one after the other for destinations, but concurrently for the two. A Handler
// stores and enqueues; it must not block. What it is given is immutable and its own from then on.
type Handler interface {
	// OnWork says that a work was found or created (before is nil), changed in its spec, its report, or its metadata, or is
	// gone (after is nil). Before is what was told last, perhaps with another ResourceVersion. Changes that come close together
	// may be told as one; the last state is always told.
	OnWork(before, after *plan.Work)
	// OnDestination says that a destination was found or changed, or is gone (nil).
	OnDestination(name string, destination *Destination)
	// OnReport says how an object does in a cluster, as the cluster reported; nil if it reports nothing of it (any more). Calls come
	// one after the other, but concurrently with the others.
	OnReport(mailbox string, ref objref.Ref, verdict *health.Verdict)
	// OnReports says what may be concluded if OnReport was not called. A Plugin without reports says ReportsNone, once.
	OnReports(state Reports)
	// OnSynced says that all works and destinations that existed at the start were told. It is called once.
	OnSynced()
}

// Destination is a cluster that a space knows.
type Destination struct {
	// Accepted tells that the space lets the cluster in. Nothing is delivered to others.
	Accepted bool
	// Candidate says which of several clusters of one name in several spaces is meant.
	inventory.Candidate
	// Properties are what templates are expanded with; nil while they are not known: then nothing is expanded.
	Properties *customize.Properties
}

// Equal tells whether the two say the same.
func (d Destination) Equal(other Destination) bool {
	return d.sameAdmission(other) && d.Properties.Equal(other.Properties)
}

// sameAdmission tells whether the two are let in alike.
func (d Destination) sameAdmission(other Destination) bool {
	return d.Accepted == other.Accepted && d.Candidate == other.Candidate
}

// Space is an inventory and transport space, under the name it was given. Names of clusters are unique over all spaces: if
// several let one in, it belongs to the one that did so first.
type Space struct {
	Name string
	// Connect returns the Plugin for the space. It blocks until the space answers or the context ends: a space that is dead
	// at the start holds up its own clusters only.
	Connect func(ctx context.Context) (Plugin, error)
}
