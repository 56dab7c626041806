package feedback

import (
	"maps"
	"time"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/transport/delivery"
)

// readings are what was said last about the destinations of a Binding, by name. While neither the
// Version of a destination changes nor the time for which its tally holds is over, it is not
// evaluated again: a report of one copy costs the copies at one destination, not those at all.
type readings map[string]reading

// reading is what was said about a destination.
type reading struct {
	version delivery.Version
	tally   tally
	// fleeting says that the tally holds for that moment only.
	fleeting bool
	// missing is since when which reports are missing. It outlives the tally.
	missing missing
}

// of returns what is said about a destination. It calls observe if that must be evaluated.
func (r *readings) of(d *delivery.Destination, now time.Time, starting bool, observe func() destination) tally {
	before := (*r)[d.Name]
	if before.holds(d.Version, now) {
		return before.tally
	}
	after := reading{version: d.Version}
	observed := observe()
	observed.missingSince = func(ref objref.Ref, applied time.Time) time.Time {
		if after.missing == nil {
			after.missing = missing{}
		}
		after.missing[ref] = before.missing.since(ref, applied, now, starting)
		return after.missing[ref]
	}
	after.tally, after.fleeting = tallyOf(&observed, now)
	if *r == nil {
		*r = readings{}
	}
	(*r)[d.Name] = after
	return after.tally
}

// holds reports whether a reading is still right.
func (r *reading) holds(version delivery.Version, now time.Time) bool {
	switch {
	case r.version != version || r.fleeting:
		return false
	case r.tally.remarks == nil || r.tally.until.IsZero():
		return true
	}
	return now.Before(r.tally.until)
}

// retain drops the readings of others than the listed destinations, of which there are so many.
func (r readings) retain(listed func(string) bool, count int) {
	if len(r) > count {
		maps.DeleteFunc(r, func(name string, _ reading) bool { return !listed(name) })
	}
}
