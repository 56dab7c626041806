package delivery

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// Progress is what has become of a Placement.
type Progress struct {
	// Destinations are those that the Placement lists, sorted by name. There are none of a Binding
	// that is being deleted.
	Destinations []Destination
	// Former are the Outcomes at destinations that are not listed any more, by name.
	Former map[string]*Outcome
	// Leftovers are where works are left of a Binding that is being deleted.
	Leftovers []Leftover
	// Held are the objects, listed or delivered, that the Binding holds.
	Held []objref.Ref
}

// Complete reports whether all destinations and their reports have been read.
func (p *Progress) Complete() bool {
	return !slices.ContainsFunc(p.Destinations, func(d Destination) bool {
		return !d.NotAccepted && (!d.Attempted || d.Reports == plugin.ReportsUnread)
	})
}

// Destination is one destination of a Placement.
type Destination struct {
	Name string
	// Version changes whenever something changes that the Destination, observed, says.
	Version Version
	// NotAccepted says that no ITS accepts a cluster of that name. It is false while that is not
	// sure.
	NotAccepted bool
	// Attempted says that the present content of the Placement was delivered, successfully or not.
	Attempted bool
	// Outcome is that of the last delivery; the zero Outcome if there was none.
	*Outcome
	// Unobserved says that something was written that the works do not show yet.
	Unobserved bool
	// Reports says what follows from a missing report.
	Reports plugin.Reports

	// Observe fills the rest.

	// Works are those in the mailbox.
	Works []Work
	// Report returns what the cluster reports of an object, if anything; nil if the destination
	// belongs to no ITS.
	Report func(objref.Ref) (plugin.Report, bool)
}

// Work is a work in a mailbox.
type Work struct {
	*plan.Work
	// FailingSince is since when this process has seen the work fail; now if it has not.
	FailingSince time.Time
}

// Progress returns what has become of a Placement. It does not block. It costs time linear in the
// destinations, however many objects they have: Observe reads those.
func (c *Controller) Progress(p *placement.Placement) Progress {
	names := slices.Sorted(maps.Keys(p.Destinations))
	revisions := make([]uint64, len(names))
	for i, name := range names {
		revisions[i] = c.revisions.of(p.UID, name) // before all that they count the changes of
	}
	outcomes := c.outcomes.of(p.Name)
	progress := Progress{Former: outcomes, Held: c.held(p)}
	if p.Deleting {
		progress.Leftovers, _ = c.leftovers(p)
		return progress
	}
	now := c.config.Clock.Now()
	progress.Destinations = make([]Destination, len(names))
	for i, name := range names {
		d := &progress.Destinations[i]
		d.Name, d.Outcome = name, cmp.Or(outcomes[name], &Outcome{})
		delete(progress.Former, name)
		d.Attempted = d.desired == p.Desired
		assigned, sure := c.fleet.assigned(name)
		if assigned == nil {
			d.NotAccepted = sure
		} else {
			assigned.glance(d, p, now)
		}
		d.Version = Version{
			desired: p.Desired, its: assigned, revision: revisions[i],
			notAccepted: d.NotAccepted, attempted: d.Attempted, unobserved: d.Unobserved, reports: d.Reports,
		}
	}
	return progress
}

// glance completes a destination by what its ITS reports of it as a whole.
func (i *its) glance(d *Destination, p *placement.Placement, now time.Time) {
	if len(p.Templates) > 0 {
		current, _ := i.store.destination(d.Name)
		d.Attempted = d.Attempted && d.properties != nil && d.properties.Equal(current.Properties)
	}
	d.Reports = i.reports.missing(d.Name)
	key := Key{Binding: p.Name, Mailbox: d.Name}
	d.Unobserved = i.expected.any(key) && i.expected.unmet(key, i.store.all(p.UID, d.Name), now)
}

// Observe completes a destination of a Placement by the works in its mailbox, and the reports of
// their objects. It does not block.
func (c *Controller) Observe(d *Destination, p *placement.Placement) {
	i := d.Version.its
	if i == nil {
		return
	}
	now, name := c.config.Clock.Now(), d.Name
	d.Report = func(ref objref.Ref) (plugin.Report, bool) { return i.reports.of(name, ref) }
	// These are at least as new as those with which an expectation was met.
	works := i.store.of(p.UID, name)
	slices.SortFunc(works, func(a, b *plan.Work) int { return strings.Compare(a.Name, b.Name) })
	for _, work := range works {
		d.Works = append(d.Works, Work{work, i.retries.since(work.UID, now)})
	}
}

// held returns the objects, listed or delivered, that a Binding holds, in no order.
func (c *Controller) held(p *placement.Placement) []objref.Ref {
	if !p.Annotations.Hold.Any() {
		return nil
	}
	held := map[objref.Ref]bool{}
	add := func(ref objref.Ref) {
		if !held[ref] && p.Annotations.Hold.Holds(ref) {
			held[ref] = true
		}
	}
	for ref := range p.Objects {
		add(ref)
	}
	c.fleet.delivered(p.UID, func(ref objref.Ref, _ bool) { add(ref) })
	return slices.Collect(maps.Keys(held))
}
