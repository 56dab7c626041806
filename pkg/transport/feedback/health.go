package feedback

import (
	"time"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// reportPatience is how long after it was applied an object may be without a report before that is
// a problem.
const reportPatience = 30 * time.Second

// copies is the health of the copies of a Binding's objects at one destination.
type copies struct {
	applied, healthy int
	problems         []string  // of copies that are not healthy
	progressing      []string  // copies
	mute             bool      // nobody reports some copies
	gone             []string  // copies that were applied once, and that somebody has deleted
	until            time.Time // when that a report is missing becomes a problem; zero is never
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
				c.mute = true
				continue
			}
			if d.isGone(item) {
				c.gone = append(c.gone, item.Ref.String())
				continue
			}
			counted := c.healthy
			c.add(d, work.Work, item, now)
			if d.isKnown == nil || d.isKnown(item.Ref) {
				c.applied++
			} else {
				c.healthy = counted // the cluster keeps what it had
			}
		}
	}
	return c
}

// isGone reports whether the cluster has reported that it has no copy of an object any more, since
// it reported that it had applied it.
func (d *destination) isGone(item *plan.Item) bool {
	report, reported := d.Report(item.Ref)
	return reported && report.Gone && corestatus.IsOf(report.Source, item.Source)
}

// add adds an object that is applied.
func (c *copies) add(d *destination, work *plan.Work, item *plan.Item, now time.Time) {
	if !d.excluded.Reports(item.Ref.GroupResource()) {
		c.healthy++ // it has no status: to exist is all that it is for
		return
	}
	report, reported := d.Report(item.Ref)
	// The copy of a former object of that name is no copy of this one; but a cluster that never
	// updates the object keeps whatever it found.
	reported = reported && (item.CreateOnly || corestatus.IsOf(report.Source, item.Source))
	switch {
	case reported && report.State == health.Healthy:
		c.healthy++
	case reported && report.State == health.Unhealthy:
		c.problems = append(c.problems, item.Ref.String()+": "+report.Message)
	case reported:
		c.progressing = append(c.progressing, item.Ref.String()+" ("+report.Message+")")
	case d.Reports != plugin.ReportsRead:
		c.mute = true
	default:
		since := time.Unix(item.Since, 0)
		if d.missingSince != nil {
			since = d.missingSince(item.Ref, since)
		}
		until := since.Add(reportPatience)
		if !until.After(now) {
			c.problems = append(c.problems, item.Ref.String()+": is applied, but "+unreported(work))
			return
		}
		c.progressing = append(c.progressing, item.Ref.String()+" (not reported yet)")
		c.until = earlier(c.until, until)
	}
}

// unreported says why a cluster does not report the status of an object of a work.
func unreported(work *plan.Work) string {
	if sibling := work.Unread(); sibling != nil {
		return "the cluster's agent cannot read " + sibling.Ref.String() + " of the same ManifestWork, so it does not report the status of new objects"
	}
	return "the cluster does not report its status"
}

// missing are the objects at a destination of which a report is missing, and since when.
type missing map[objref.Ref]time.Time

// since returns since when a report is missing that is missing now. It is measured by our clock,
// because that of a cluster may be wrong. Only a report that is found missing at the start counts
// as missing since its object was applied: otherwise a restart would withdraw a problem for a
// while.
func (before missing) since(ref objref.Ref, applied, now time.Time, starting bool) time.Time {
	if since, known := before[ref]; known {
		return since
	}
	if starting && applied.Before(now) {
		return applied
	}
	return now
}
