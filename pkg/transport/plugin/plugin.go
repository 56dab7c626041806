// Package plugin defines how the transport reads and writes the mailboxes of one inventory and
// transport space (ITS). Packages ocm and directory implement Plugin; package delivery uses it.
package plugin

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

// ErrStale says that a work is not, or no longer, what an Action was planned on. The plan is made
// again when the Handler has received the work as it is now.
var ErrStale = errors.New("the work is not what was planned on")

// Plugin carries works into the mailboxes of one inventory and transport space. All works that it
// touches carry the identity of one WDS. It may also report works of other WDSes, so that conflicts
// with them are found: of those it reports only what a plan.Owner is made of. It ignores works
// without the labels of a WDS.
//
// A Plugin keeps no queue and retries nothing: its caller does. It holds no content of works.
type Plugin interface {
	// Run watches works and destinations and notifies the Handler, until the context ends. Then it
	// returns nil, and the Handler is not called again. An ITS that does not answer is not an
	// error: the Plugin goes on trying, and what it reported before stays valid. An error is a
	// defect of the program or its configuration.
	Run(ctx context.Context, handler Handler) error

	// Do carries out one Action: one write to the ITS. It blocks until the ITS has answered or the
	// context ends. It is called concurrently, but never for two Actions on one work. The Origin is
	// the Binding.
	//
	// After success the Handler receives the work as it is in the Receipt, before or after Do
	// returns. After some errors it is unknown whether the write took place. Do returns an error
	// that wraps ErrStale if the guards of the Action do not hold; errors of an API server are
	// wrapped, so apierrors.IsForbidden and the like recognize them.
	Do(ctx context.Context, origin Origin, action *plan.Action) (Receipt, error)

	// Restored returns the ID of the last restoration of the ITS from a backup, empty if there was
	// none. Clusters may have works that the ITS does not know since then. So names of new works
	// have this ID in them: under a name that a cluster knows, it would take out what it has.
	Restored() string

	// Works reads from the ITS, not from what it watches, which works of the WDS exist now, and
	// returns their generations by UID. The Handler may receive them later. It is called when this
	// process becomes the leader after it has stood by.
	Works(ctx context.Context) (map[types.UID]int64, error)

	// Content reads from the ITS what a work has of an object. It returns an error that wraps
	// ErrStale if the work is another one, or has another generation. It is called only for
	// works whose destination reports.
	Content(ctx context.Context, work *plan.Work, ref objref.Ref) (transform.Object, error)
}

// Origin is the Binding that a work belongs to. All of it is written on the work.
type Origin struct {
	// Binding and BindingUID are the name and the UID of the Binding.
	Binding    string
	BindingUID types.UID
}

// Receipt is the result of a successful write to a work.
type Receipt struct {
	// UID and Generation are those of the work after the write; zero after a deletion.
	UID        types.UID
	Generation int64
	// Recorded is the hash that was written with the spec; zero if none was.
	Recorded transform.Hash
}

// Handler receives what is in an ITS.
//
// Calls about works come one after the other, and so do calls about destinations, but the two kinds
// come concurrently. A Handler stores and enqueues; it must not block. Its arguments are immutable.
type Handler interface {
	// OnWork reports that a work was found or created (before is nil), that its spec, status or
	// metadata changed, or that it is gone (after is nil). before is the work as it was reported
	// last, except for the ResourceVersion. Several changes may be reported as one; the last state
	// is always reported.
	OnWork(before, after *plan.Work)
	// OnDestination reports that a destination was found or changed, or is gone (nil).
	OnDestination(name string, destination *Destination)
	// OnReport reports what a cluster reports of an object; nil if it reports nothing (any more).
	// Calls come one after the other, but concurrently with the others.
	OnReport(mailbox string, ref objref.Ref, report *Report)
	// OnReports reports what follows from a missing OnReport. A Plugin without reports calls it
	// once, with ReportsNone.
	OnReports(state Reports)
	// OnPartial reports whether only a part of the reports of a mailbox is read, because it has
	// more than are read of one cluster. Then nothing follows from a missing OnReport of that
	// mailbox. It is called before the first OnReport of which this is the cause, and after the
	// last one.
	OnPartial(mailbox string, partial bool)
	// OnSynced reports that all works and destinations that existed at the start were reported. It
	// is called once.
	OnSynced()
}

// Report is what a cluster reports of an object. It is comparable.
type Report struct {
	health.Verdict
	// Source is the UID of the object in the WDS that the cluster has a copy of; see status.IsOf.
	Source types.UID
	// Gone: the object was applied, and is not in the cluster any more.
	Gone bool
}

// Reports is what follows from a missing report.
type Reports int8

// What follows from a missing report.
const (
	// ReportsUnread: nothing, because not all reports were read yet.
	ReportsUnread Reports = iota
	// ReportsRead: the cluster has not reported the object.
	ReportsRead
	// ReportsNone: nothing, because no cluster of this ITS reports.
	ReportsNone
	// ReportsPartial: nothing, because the cluster reports more than is read of one cluster.
	ReportsPartial
)

// Destination is a cluster that an ITS knows.
type Destination struct {
	// Accepted says that the ITS accepts the cluster. Nothing is delivered to others.
	Accepted bool
	// Candidate decides between clusters of one name in several ITSes.
	inventory.Candidate
	// Properties are what templates are expanded with; nil while they are not known: then nothing
	// is expanded.
	Properties *customize.Properties
}

// Equal reports whether the two are the same.
func (d Destination) Equal(other Destination) bool {
	return d.SameAdmission(other) && d.Properties.Equal(other.Properties)
}

// SameAdmission reports whether the two are accepted alike.
func (d Destination) SameAdmission(other Destination) bool {
	return d.Accepted == other.Accepted && d.Candidate == other.Candidate
}

// ITS is an inventory and transport space, or a directory that stands for one. Cluster names are
// unique over all ITSes: of several that accept a cluster of one name, the cluster belongs to the
// one that did so first.
type ITS struct {
	Name string
	// Connect returns the Plugin for the ITS. It blocks until the ITS answers or the context ends:
	// an ITS that is down at the start delays its own clusters only.
	Connect func(ctx context.Context) (Plugin, error)
}
