package main

import (
	"context"
	"fmt"
	"time"
)

// timing is how long it took from the accepted change until the first and the last mailbox had the
// expected content.
type timing struct{ first, last time.Duration }

func (a *arrivals) since(began time.Time) timing {
	return timing{first: a.first.Sub(began), last: a.last.Sub(began)}
}

// round is one measurement and its bare counterpart.
type round struct {
	real, bare timing
	requests   requests
	cpu        map[string]time.Duration
}

// comparison has the rounds of one kind.
type comparison struct {
	name   string
	rounds []round
	// writes is the expected number of writes in each round. No reads are expected.
	writes int
	// factor and extra limit the time of the last mailbox: factor times that of the bare writes,
	// plus extra.
	factor float64
	extra  time.Duration
	// most limits the time of the last mailbox, in the median, if it is not 0.
	most time.Duration
}

// measure runs an action against the implementation, and returns when the mailboxes had its effect,
// and its cost.
func (s *stage) measure(ctx context.Context, mailboxes []string, there func(mailbox) bool, act func(context.Context) error) (round, error) {
	before, err := s.its.requests(ctx, ofResource(manifestWorks.Resource))
	if err != nil {
		return round{}, err
	}
	if err := s.waitIdle(ctx); err != nil {
		return round{}, err
	}
	cpu, err := s.cpu()
	if err != nil {
		return round{}, err
	}
	arrivals := s.watcher.expect(placed, mailboxes, there)
	if err := act(ctx); err != nil {
		return round{}, err
	}
	accepted := time.Now()
	if err := s.watcher.wait(ctx, arrivals, limit); err != nil {
		return round{}, err
	}
	if err := s.waitIdle(ctx); err != nil { // late writes count too
		return round{}, err
	}
	r := round{real: arrivals.since(accepted), cpu: map[string]time.Duration{}}
	used, err := s.cpu()
	if err != nil {
		return round{}, err
	}
	for name := range used {
		r.cpu[name] = used[name] - cpu[name]
	}
	after, err := s.its.requests(ctx, ofResource(manifestWorks.Resource))
	r.requests = after.minus(before)
	return r, err
}

func edit(ctx context.Context, s *stage) (result, error) {
	r := comparison{writes: s.o.editClusters, factor: 2, extra: 50 * time.Millisecond, most: 250 * time.Millisecond}
	return s.edits(ctx, r, s.o.editObjects, s.o.editClusters, s.o.editRounds, time.Second)
}

func editLarge(ctx context.Context, s *stage) (result, error) {
	r := comparison{writes: s.o.largeClusters, factor: editFactor, most: 2500 * time.Millisecond}
	return s.edits(ctx, r, s.o.largeObjects, s.o.largeClusters, s.o.largeRounds, 0)
}

// Limits of what many clusters take, as factors of the bare writes. A placement is compared with
// fewer rounds than an edit.
const (
	editFactor  = 1.3
	placeFactor = 1.6
)

// edits changes one object in each round, and the bare works after it. Both sides are measured in
// turn, so that other load on the machine affects both. The first round is not counted, because all
// caches are cold. The placement before has a goal if mostPlacing is not 0.
func (s *stage) edits(ctx context.Context, r comparison, objects, clusters, rounds int, mostPlacing time.Duration) (result, error) {
	what := fmt.Sprintf("%d objects x %d clusters", objects, clusters)
	r.name = "edit, " + what
	mailboxes, err := s.simulate(ctx, clusters)
	if err != nil {
		return result{}, err
	}
	w, err := s.fill(ctx, "edit", objects, mailboxes)
	if err != nil {
		return result{}, err
	}
	placing, err := s.measure(ctx, mailboxes, w.full, w.place)
	if err != nil {
		return result{}, err
	}
	writer, err := s.newBareWriter(ctx, mailboxes)
	if err != nil {
		return result{}, err
	}
	defer writer.stop()
	if _, err := writer.create(ctx); err != nil {
		return result{}, err
	}
	if err := w.editInTurn(ctx, writer, rounds, &r); err != nil {
		return result{}, err
	}
	took := figure{what: "first placement, " + what + ": s", value: seconds(placing.real.last)}
	if mostPlacing > 0 {
		took.goal, took.missed = "at most "+seconds(mostPlacing), placing.real.last > mostPlacing
	}
	all, err := s.result(r)
	all.figures = []figure{took}
	all.samples = []sample{{name: "first placement, " + what, took: placing.real.last}}
	return all, err
}

// editInTurn edits the workload and the bare works in turn, and adds the rounds to the comparison.
func (w *workload) editInTurn(ctx context.Context, writer *bareWriter, rounds int, r *comparison) error {
	done := step("edit %d times", rounds)
	defer done()
	for i := range rounds + 1 {
		m := mark{object: (i + 1) * 7 % w.objects, edit: i + 1}
		round, err := w.measure(ctx, w.mailboxes, func(in mailbox) bool { return in.edited(m) },
			func(ctx context.Context) error { return w.edit(ctx, m) })
		if err != nil {
			return err
		}
		if round.bare, err = writer.edit(ctx, round.requests, m); err != nil {
			return err
		}
		if i > 0 {
			r.rounds = append(r.rounds, round)
		}
	}
	return nil
}

// place places and removes. In every second round the bare writes are first. They copy the
// placement of the first round, which is not counted.
func place(ctx context.Context, s *stage) (result, error) {
	mailboxes, err := s.simulate(ctx, s.o.largeClusters)
	if err != nil {
		return result{}, err
	}
	w, err := s.fill(ctx, "place", s.o.largeObjects, mailboxes)
	if err != nil {
		return result{}, err
	}
	if err := w.placeAndWait(ctx); err != nil {
		return result{}, err
	}
	writer, err := s.newBareWriter(ctx, mailboxes)
	if err != nil {
		return result{}, err
	}
	defer writer.stop()
	name := fmt.Sprintf("%d objects x %d clusters", w.objects, len(mailboxes))
	writes := len(writer.works) * len(mailboxes)
	placing := comparison{name: "place, " + name, writes: writes, factor: placeFactor}
	removing := comparison{name: "delete the policy, " + name, writes: writes, factor: placeFactor}
	if _, err := s.measure(ctx, mailboxes, mailbox.empty, w.remove); err != nil {
		return result{}, err
	}
	measured := func(in, out *round) error {
		var err error
		if *in, err = s.measure(ctx, mailboxes, w.full, w.place); err != nil {
			return err
		}
		*out, err = s.measure(ctx, mailboxes, mailbox.empty, w.remove)
		return err
	}
	alone := func(in, out *timing) error {
		if err := s.waitIdle(ctx); err != nil {
			return err
		}
		var err error
		if *in, err = writer.create(ctx); err != nil {
			return err
		}
		if err := s.waitIdle(ctx); err != nil {
			return err
		}
		*out, err = writer.deleteAll(ctx)
		return err
	}
	done := step("place and remove %d times", s.o.largeRounds)
	defer done()
	for i := range s.o.largeRounds {
		var in, out round
		var bareIn, bareOut timing
		steps := []func() error{func() error { return measured(&in, &out) }, func() error { return alone(&bareIn, &bareOut) }}
		for j := range steps {
			if err := steps[(i+j)%2](); err != nil {
				return result{}, err
			}
		}
		in.bare, out.bare = bareIn, bareOut
		placing.rounds = append(placing.rounds, in)
		removing.rounds = append(removing.rounds, out)
	}
	return s.result(placing, removing)
}
