package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// fairGoal limits the 99th percentile of edits for one cluster while many clusters are written.
const fairGoal = 300 * time.Millisecond

// fair edits one object for one cluster again and again, on an idle fleet, and while an edit for
// many clusters is delivered.
func fair(ctx context.Context, s *stage) (result, error) {
	mailboxes, err := s.simulate(ctx, s.o.largeClusters)
	if err != nil {
		return result{}, err
	}
	if _, err := s.simulate(ctx, 1); err != nil {
		return result{}, err
	}
	large, err := s.fill(ctx, "large", s.o.largeObjects, mailboxes)
	if err != nil {
		return result{}, err
	}
	if err := large.placeAndWait(ctx); err != nil {
		return result{}, err
	}
	small, err := s.fill(ctx, "small", 1, mailboxes[:1])
	if err != nil {
		return result{}, err
	}
	// Edits of the small workload have numbers that those of the large one do not reach.
	m := mark{object: 0, edit: 500_000}
	edit := func() (time.Duration, error) {
		m.edit++
		want := m
		arrivals := s.watcher.expect(placed, mailboxes[:1], func(in mailbox) bool { return in.edited(want) })
		began := time.Now()
		if err := small.edit(ctx, m); err != nil {
			return 0, err
		}
		if err := s.watcher.wait(ctx, arrivals, limit); err != nil {
			return 0, err
		}
		return arrivals.since(began).last, nil
	}
	if err := small.place(ctx); err != nil {
		return result{}, err
	}
	if _, err := edit(); err != nil {
		return result{}, err
	}
	if err := s.waitIdle(ctx); err != nil {
		return result{}, err
	}
	var idle, busy []time.Duration
	for range 50 {
		took, err := edit()
		if err != nil {
			return result{}, err
		}
		idle = append(idle, took)
	}
	done := step("edit %d times for all clusters, and for one meanwhile", s.o.largeRounds)
	defer done()
	for i := range s.o.largeRounds {
		change := []mark{{object: i%(s.o.largeObjects-1) + 1, edit: i + 1}}
		if err := large.edit(ctx, change[0]); err != nil {
			return result{}, err
		}
		for s.watcher.missing(placed, mailboxes, change) > 0 {
			took, err := edit()
			if err != nil {
				return result{}, err
			}
			busy = append(busy, took)
		}
		if err := s.waitIdle(ctx); err != nil {
			return result{}, err
		}
	}
	r, err := s.result()
	if err != nil {
		return result{}, err
	}
	slices.Sort(idle)
	slices.Sort(busy)
	what := fmt.Sprintf("an edit for one cluster while %d clusters are written: p%%d of %d, ms (idle; ratio)", len(mailboxes), len(busy))
	for _, p := range []int{50, 99} {
		x, y := quantile(busy, p), quantile(idle, p)
		f := figure{what: fmt.Sprintf(what, p), value: fmt.Sprintf("%s (%s; %.1f)", ms(x), ms(y), x.Seconds()/y.Seconds())}
		if p == 99 {
			f.goal, f.missed = "under "+ms(fairGoal), x >= fairGoal
		}
		r.figures = append(r.figures, f)
	}
	for _, took := range busy {
		r.samples = append(r.samples, sample{name: "fair", took: took})
	}
	return r, nil
}
