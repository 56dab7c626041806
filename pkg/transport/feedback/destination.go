package feedback

import (
	"fmt"
	"slices"
	"time"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/transport/delivery"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// transientFor is how long a transient failure is no error: a Namespace may be delivered by another
// Binding, or created by somebody else.
const transientFor = 30 * time.Second

// destination is one destination of a Binding, observed.
type destination struct {
	delivery.Destination
	// wants reports whether the destination should hold an object.
	wants func(objref.Ref) bool
	// isKnown reports whether it is known what the destination should have of an object; nil means
	// of all. Copies of others have some former content, and do not count as applied.
	isKnown func(objref.Ref) bool
	// excluded are kinds of which no reports are expected.
	excluded corestatus.Excluded
	// missingSince returns since when a report is missing, given since when the object is applied
	// by the clock of the cluster.
	missingSince func(ref objref.Ref, applied time.Time) time.Time
}

// tallyOf returns what is said about a destination. Fleeting reports whether that changes with the
// time, before the time that the tally names.
func tallyOf(d *destination, now time.Time) (t tally, fleeting bool) {
	if d.NotAccepted {
		return tally{remarks: &remarks{
			failures: 1,
			errors:   listingOf([]string{d.Name + ": is not an accepted cluster of any ITS. Accept its ManagedCluster, or correct the name"}, 1),
		}}, false
	}
	a, h := applicationOf(d, now), healthOf(d, now)
	t = tally{appliedCopies: h.applied, healthyCopies: h.healthy}
	if d.isWell(&a, &h) {
		return t, false
	}
	r := &remarks{
		failures: len(d.Errors), claims: len(d.Claims), overfull: len(a.overfull), refused: len(a.refused),
		leaving: namesOf(prefixed(d.Name, d.Leaving)...), progressing: namesOf(prefixed(d.Name, h.progressing)...), gone: namesOf(prefixed(d.Name, h.gone)...),
		until: earlier(a.until, h.until),
	}
	errors := slices.Concat(d.Errors, d.Claims, d.Disputes, a.overfull, a.refused)
	r.errors = listingOf(prefixed(d.Name, distinct(errors)), delivery.MaxTexts)
	if d.HeldBack > 0 {
		r.heldBack = namesOf(d.Name)
	}
	if !d.Attempted {
		r.delivering = namesOf(d.Name)
	}
	r.tooLarge = each(d.TooLarge, objref.Ref.String)
	r.waiting = namesOf(prefixed(d.Name, distinct(each(d.Waiting, func(w plan.Wait) string { return w.For.String() })))...)
	switch {
	case a.pending || d.Unobserved:
		r.applying = namesOf(d.Name)
	case a.silent:
		r.silent = namesOf(d.Name)
	}
	switch {
	case !h.mute:
	case d.Reports == plugin.ReportsPartial:
		r.mute = namesOf(d.Name + " (its mailbox has more WorkStatuses than are read)")
	default:
		r.mute = namesOf(d.Name)
	}
	problems := listingOf(prefixed(d.Name, slices.Concat(a.refused, h.problems)), maxProblems)
	r.problems, r.problemsCount = problems.first, problems.len()
	t.remarks = r
	return t, a.fleeting
}

// isWell reports whether there is nothing to say about a destination but how many copies it has.
func (d *destination) isWell(a *application, h *copies) bool {
	return d.Attempted && !d.Unobserved && d.HeldBack == 0 &&
		len(d.Errors)+len(d.Claims)+len(d.Disputes)+len(d.Leaving)+len(d.TooLarge)+len(d.Waiting) == 0 &&
		!a.pending && !a.silent && len(a.refused)+len(a.overfull) == 0 &&
		!h.mute && len(h.problems)+len(h.progressing)+len(h.gone) == 0
}

// application is what a destination reported of the works in its mailbox.
type application struct {
	refused  []string // what it reported of objects that it could not apply
	overfull []string // works that it cannot report on
	// pending and silent say that some reports are still to come, or never will.
	pending, silent bool
	// until is when a failure becomes an error; zero is never. It is fleeting if it is not known
	// yet since when a work fails.
	until    time.Time
	fleeting bool
}

func applicationOf(d *destination, now time.Time) (a application) {
	for w := range d.Works {
		work := &d.Works[w]
		if work.Deleting {
			continue
		}
		if overfull(work) {
			a.overfull = append(a.overfull, fmt.Sprintf(
				"the cluster cannot report on ManifestWork %s: with the report on its %s it would be larger than etcd stores. "+
					"Restart the transport-controller with --max-num-wrapped=%d",
				work.Name, text.Count(len(work.Items), "object"), reportable))
		}
		for i := range work.Items {
			item := &work.Items[i]
			switch item.State {
			case plan.Applied:
				a.pending = a.pending || item.Unsettled() // further steps follow
			case plan.Pending:
				a.pending = true
			case plan.Silent:
				a.silent = true
			case plan.Failed:
				if item.Passed() || item.Immutable && item.Stage.Former != "" {
					a.pending = true // the next step follows
					continue
				}
				until := patience(work, item)
				if !until.After(now) {
					a.refused = append(a.refused, item.Ref.String()+": "+item.Refusal())
					continue
				}
				a.pending = true
				a.until = earlier(a.until, until)
				a.fleeting = a.fleeting || !work.FailingSince.Before(now)
			}
		}
	}
	return a
}

const (
	// reportSize is what OCM's agent writes into the status of a work for each object, in bytes:
	// the object's identity and three conditions.
	reportSize = 640
	// etcdLimit is the size in bytes of a request that etcd accepts by default.
	etcdLimit = 3 << 19
	// reportable is a number of objects, of any size that a work takes, on which a cluster can
	// report.
	reportable = 1000
)

// overfull reports whether a work is too large for a report on all of its objects, and lacks one.
// Then the agent fails at each attempt to write it.
func overfull(work *delivery.Work) bool {
	size, unreported := len(work.Items)*reportSize, false
	for i := range work.Items {
		size += work.Items[i].Size
		unreported = unreported || work.Items[i].State == plan.Pending
	}
	return unreported && size > etcdLimit
}

// patience returns until when a failure is no error yet; zero if it is one anyway. The time is that
// by the clock of the cluster, which a restart of this process does not change, but at most the
// time that this process has seen: clocks differ.
func patience(work *delivery.Work, item *plan.Item) time.Time {
	if !item.Transient() {
		return time.Time{}
	}
	since := time.Unix(item.Since, 0)
	if work.FailingSince.Before(since) {
		since = work.FailingSince
	}
	return since.Add(transientFor)
}

// prefixed returns texts about a cluster with its name.
func prefixed(cluster string, texts []string) []string {
	return each(texts, func(text string) string { return cluster + ": " + text })
}

// distinct returns the texts sorted, each once.
func distinct(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// each returns the texts of all.
func each[T any](all []T, textOf func(T) string) []string {
	var texts []string
	for _, one := range all {
		texts = append(texts, textOf(one))
	}
	return texts
}
