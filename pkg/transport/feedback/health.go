package feedback

import (
	"time"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// reportPatience is how long after it was applied an object may be without a report before that is
// a problem.
const reportPatience = 30 * time.Second

// copies is the health of the copies of a Binding's objects at one destination.
type copies struct {
	applied, healthy int
	problems         []string // of copies that are not healthy
	progressing      []string // copies
	mute             []string // copies that nobody reports
	recheck          time.Duration
}

// healthOf adds up the health of the objects that a destination should hold.
func healthOf(d *destination, now time.Time) (c copies) {
	seen := map[objref.Ref]bool{}
	for i := range d.Works {
		work := &d.Works[i]
		if work.Deleting {
			continue
		}
		for j := range work.Items {
			item := &work.Items[j]
			// An object that moves is in two works until it is applied in the new one.
			if item.Observe || seen[item.Ref] || item.State != plan.Applied && item.State != plan.Silent || !d.wants(item.Ref) {
				continue
			}
			seen[item.Ref] = true
			if item.State == plan.Silent {
				c.mute = append(c.mute, item.Ref.String())
				continue
			}
			c.applied++
			c.add(d, item, now)
		}
	}
	return c
}

// add adds an object that is applied.
func (c *copies) add(d *destination, item *plan.Item, now time.Time) {
	if !d.excluded.Reports(item.Ref.GroupResource()) {
		c.healthy++ // it has no status: to exist is all that it is for
		return
	}
	verdict, reported := d.Verdict(item.Ref)
	switch {
	case reported && verdict.State == health.Healthy:
		c.healthy++
	case reported && verdict.State == health.Unhealthy:
		c.problems = append(c.problems, item.Ref.String()+": "+verdict.Message)
	case reported:
		c.progressing = append(c.progressing, item.Ref.String()+" ("+verdict.Message+")")
	case d.Reports != plugin.ReportsRead:
		c.mute = append(c.mute, item.Ref.String())
	default:
		since := time.Unix(item.Since, 0)
		if d.missingSince != nil {
			since = d.missingSince(item.Ref, since)
		}
		left := since.Add(reportPatience).Sub(now)
		if left <= 0 {
			c.problems = append(c.problems, item.Ref.String()+": is applied, but the cluster does not report its status")
			return
		}
		c.progressing = append(c.progressing, item.Ref.String()+" (not reported yet)")
		c.recheck = delivery.Sooner(c.recheck, left)
	}
}

// copyKey identifies a copy: an object in a mailbox.
type copyKey struct {
	mailbox string
	ref     objref.Ref
}

// missing are the copies of which a report is missing, and since when.
type missing map[copyKey]time.Time

// since returns since when a report is missing that is missing now, and records it in current. It
// is measured by our clock, because that of a cluster may be wrong. Only a report that is found
// missing at the start counts as missing since its object was applied: otherwise a restart would
// withdraw a problem for a while.
func (before missing) since(current missing, key copyKey, applied, now time.Time, starting bool) time.Time {
	since, known := before[key]
	switch {
	case known:
	case starting && applied.Before(now):
		since = applied
	default:
		since = now
	}
	current[key] = since
	return since
}
