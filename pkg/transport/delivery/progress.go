package delivery

import (
	"maps"
	"slices"
	"time"

	"github.com/starlinghq/starling/pkg/core/health"
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
	Former map[string]Outcome
	// Leftovers are where works are left of a Binding that is being deleted.
	Leftovers []Leftover
	// Held are the objects, listed or delivered, that the Binding holds.
	Held []objref.Ref
}

// Destination is one destination of a Placement.
type Destination struct {
	Name string
	// NotAccepted says that no ITS accepts a cluster of that name. It is false while that is not
	// sure.
	NotAccepted bool
	// Attempted says that the present content of the Placement was delivered, successfully or not.
	Attempted bool
	Outcome
	// Works are those in the mailbox.
	Works []Work
	// Unobserved says that something was written that the works do not show yet.
	Unobserved bool
	// Reports says what follows from a missing report.
	Reports plugin.Reports
	// Verdict returns the health of an object, if the cluster reported it; nil if the destination
	// belongs to no ITS.
	Verdict func(objref.Ref) (health.Verdict, bool)
}

// Work is a work in a mailbox.
type Work struct {
	*plan.Work
	// FailingSince is since when this process has seen the work fail; now if it has not.
	FailingSince time.Time
}

// Progress returns what has become of a Placement. It does not block.
func (c *Controller) Progress(p *placement.Placement) Progress {
	outcomes := c.outcomes.of(p.Name)
	progress := Progress{Former: maps.Clone(outcomes), Held: c.held(p)}
	if p.Deleting {
		progress.Leftovers, _ = c.leftovers(p)
		return progress
	}
	now := c.config.Clock.Now()
	for _, name := range slices.Sorted(maps.Keys(p.Destinations)) {
		delete(progress.Former, name)
		d := Destination{Name: name, Outcome: outcomes[name]}
		d.Attempted = d.desired == p.Desired
		assigned, sure := c.fleet.assigned(name)
		if assigned == nil {
			d.NotAccepted = sure
		} else {
			assigned.observe(&d, p, now)
		}
		progress.Destinations = append(progress.Destinations, d)
	}
	return progress
}

// observe completes a destination by what its ITS reports.
func (i *its) observe(d *Destination, p *placement.Placement, now time.Time) {
	if len(p.Templates) > 0 {
		current, _ := i.store.destination(d.Name)
		d.Attempted = d.Attempted && d.properties != nil && d.properties.Equal(current.Properties)
	}
	d.Reports = i.reports.missing(d.Name)
	d.Verdict = func(ref objref.Ref) (health.Verdict, bool) { return i.reports.of(d.Name, ref) }
	d.Unobserved = i.expected.unmet(Key{Binding: p.Name, Mailbox: d.Name}, i.store.of(p.UID, d.Name), now)
	// The works are read again: a delivery may have met its expectation with newer works than
	// those.
	for _, work := range i.store.of(p.UID, d.Name) {
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
