package transport

import (
	"sync"
	"time"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// Reports says what may be concluded from a report that is not there.
type Reports int8

// What may be concluded.
const (
	// ReportsUnread: nothing; not all reports were told of yet.
	ReportsUnread Reports = iota
	// ReportsRead: the cluster has not reported.
	ReportsRead
	// ReportsNone: nobody reports in this space.
	ReportsNone
)

// reports holds how objects do in clusters, as agents reported. It is safe for concurrent use.
type reports struct {
	mu       sync.RWMutex
	state    Reports
	verdicts map[string]map[objref.Ref]health.Verdict // by mailbox
}

// set tells whether that is news.
func (r *reports) set(mailbox string, ref objref.Ref, verdict *health.Verdict) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.verdicts[mailbox][ref]
	if verdict == nil {
		delete(r.verdicts[mailbox], ref)
		if len(r.verdicts[mailbox]) == 0 {
			delete(r.verdicts, mailbox)
		}
		return known
	}
	if known && before == *verdict {
		return false
	}
	if r.verdicts == nil {
		r.verdicts = map[string]map[objref.Ref]health.Verdict{}
	}
	if r.verdicts[mailbox] == nil {
		r.verdicts[mailbox] = map[objref.Ref]health.Verdict{}
	}
	r.verdicts[mailbox][ref] = *verdict
	return true
}

// become tells whether the state is another one now.
func (r *reports) become(state Reports) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := r.state != state
	r.state = state
	return changed
}

func (r *reports) now() Reports {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state
}

func (r *reports) of(mailbox string, ref objref.Ref) (health.Verdict, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	v, ok := r.verdicts[mailbox][ref]
	return v, ok
}

// OnReport implements Handler.
func (s *space) OnReport(mailbox string, ref objref.Ref, verdict *health.Verdict) {
	if !s.reports.set(mailbox, ref, verdict) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.listed[ref] {
		if s.concerned(name, mailbox) {
			s.status.Add(name)
		}
	}
}

// OnReports implements Handler.
func (s *space) OnReports(state Reports) {
	if !s.reports.become(state) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.placements {
		s.status.Add(name)
	}
}

// reportPatience is how long after it was applied an object may be without a report before that is a problem.
const reportPatience = 30 * time.Second

// wellbeing is how the copies of a Binding's objects do at one destination.
type wellbeing struct {
	applied, healthy int
	problems         []string // of copies that are not well
	progressing      []string // copies
	mute             []string // copies of which nobody reports
	recheck          time.Duration
}

// wellbeing adds up how the objects do that are wanted at the destination.
func (s *site) wellbeing(now time.Time) (w wellbeing) {
	seen := map[objref.Ref]bool{}
	for i := range s.works {
		work := &s.works[i]
		if work.Deleting {
			continue
		}
		for j := range work.Items {
			item := &work.Items[j]
			// An object that moves is in two works until it is applied in the new one.
			if item.Observe || seen[item.Ref] || item.State != plan.Applied && item.State != plan.Silent || !s.wants(item.Ref) {
				continue
			}
			seen[item.Ref] = true
			if item.State == plan.Silent {
				w.mute = append(w.mute, item.Ref.String())
				continue
			}
			w.applied++
			s.judge(&w, item, now)
		}
	}
	return w
}

// copyKey names an object in a mailbox.
type copyKey struct {
	mailbox string
	ref     objref.Ref
}

// missing are the copies of which a report is missing, with since when.
type missing map[copyKey]time.Time

// missed returns since when a report is missing that is missing now, and notes it: by our clock, since that of a cluster may be
// anywhere. Only what is found missing at the start has been so since it was applied, or a restart would take a problem back for a while.
func (before missing) missed(now missing, key copyKey, applied, at time.Time, starting bool) time.Time {
	since, known := before[key]
	switch {
	case known:
	case starting && applied.Before(at):
		since = applied
	default:
		since = at
	}
	now[key] = since
	return since
}

func (s *site) judge(w *wellbeing, item *plan.Item, now time.Time) {
	if !s.excluded.Reports(item.Ref.GroupResource()) {
		w.healthy++ // to be there is all that it is for
		return
	}
	verdict, reported := s.verdict(item.Ref)
	switch {
	case reported && verdict.State == health.Healthy:
		w.healthy++
	case reported && verdict.State == health.Unhealthy:
		w.problems = append(w.problems, item.Ref.String()+": "+verdict.Message)
	case reported:
		w.progressing = append(w.progressing, item.Ref.String()+" ("+verdict.Message+")")
	case s.reports != ReportsRead:
		w.mute = append(w.mute, item.Ref.String())
	default:
		since := time.Unix(item.Since, 0)
		if s.missed != nil {
			since = s.missed(item.Ref, since)
		}
		left := since.Add(reportPatience).Sub(now)
		if left <= 0 {
			w.problems = append(w.problems, item.Ref.String()+": was applied, and the cluster does not report on it")
			return
		}
		w.progressing = append(w.progressing, item.Ref.String()+" (not reported yet)")
		if w.recheck == 0 || left < w.recheck {
			w.recheck = left
		}
	}
}
