package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// fleetMemory limits the resident memory of the transport-controller with a very large fleet.
	fleetMemory = 1 << 30
	// fleetLabels is the number of clusters whose labels are changed, one after the other.
	fleetLabels = 5
)

// largeFleet measures few objects on very many clusters: the first placement, edits, a cluster that
// leaves the policy and returns, a restart, and the memory of each process. The bare writes of the
// same run are what the ITS can do.
func largeFleet(ctx context.Context, s *stage) (result, error) {
	mailboxes, err := s.simulate(ctx, s.o.fleetClusters)
	if err != nil {
		return result{}, err
	}
	w, err := s.fill(ctx, "fleet", s.o.fleetObjects, mailboxes)
	if err != nil {
		return result{}, err
	}
	what := fmt.Sprintf("%d objects x %d clusters", w.objects, len(mailboxes))
	done := step("place %s", what)
	first, err := s.measure(ctx, mailboxes, w.full, w.place)
	if err != nil {
		return result{}, err
	}
	done()
	// Bare works double what the ITS stores, so its memory is read before they are created.
	var figures []figure
	memory, err := s.memory(ctx)
	if err != nil {
		return result{}, err
	}
	for _, name := range slices.Sorted(maps.Keys(memory)) {
		figures = append(figures, figure{what: what + " placed: resident memory of " + name, value: mib(memory[name].rss) + ", at most " + mib(memory[name].peak)})
	}
	writer, err := s.newBareWriter(ctx, mailboxes)
	if err != nil {
		return result{}, err
	}
	defer writer.stop()
	placing := comparison{name: "place, " + what, writes: len(writer.works) * len(mailboxes), factor: placeFactor}
	done = step("bare: place %s", what)
	if first.bare, err = writer.create(ctx); err != nil {
		return result{}, err
	}
	done()
	placing.rounds = []round{first}
	editing := comparison{name: "edit, " + what, writes: len(mailboxes), factor: editFactor}
	if err := w.editInTurn(ctx, writer, s.o.fleetRounds, &editing); err != nil {
		return result{}, err
	}
	for _, c := range []comparison{placing, editing} {
		bare := spreadOf(c.rounds, func(r *round) time.Duration { return r.bare.last })
		figures = append(figures, figure{what: c.name + ": bare writes a second", value: fmt.Sprintf("%.0f", float64(c.writes)/bare.median.Seconds())})
	}
	left, returned, err := w.relabel(ctx)
	if err != nil {
		return result{}, err
	}
	r, err := s.result(placing, editing)
	if err != nil {
		return result{}, err
	}
	for _, change := range []struct {
		change, effect string
		times          []time.Duration
	}{{"a cluster loses the policy's label", "its mailbox is empty", left}, {"a cluster gets the policy's label", "its mailbox is full", returned}} {
		slices.Sort(change.times)
		figures = append(figures, figure{
			what:  fmt.Sprintf("%s: %s, %s after s (p50 of %d, at most)", what, change.change, change.effect, len(change.times)),
			value: fmt.Sprintf("%s (%s)", seconds(quantile(change.times, 50)), seconds(change.times[len(change.times)-1])),
		})
		for _, took := range change.times {
			r.samples = append(r.samples, sample{name: what + ", " + change.change, took: took})
		}
	}
	if err := s.quiet(ctx); err != nil {
		return result{}, err
	}
	if r.memory, err = s.memory(ctx); err != nil {
		return result{}, err
	}
	restart, err := s.restartLarge(ctx, what, &r)
	if err != nil {
		return result{}, err
	}
	r.figures = slices.Concat(figures, restart)
	return r, nil
}

// relabel removes the policy's label from some clusters and adds it again, one after the other. It
// returns how long it took until their mailboxes were empty, and until they were full.
func (w *workload) relabel(ctx context.Context) (left, returned []time.Duration, err error) {
	done := step("change the labels of %d clusters", fleetLabels)
	defer done()
	change := func(cluster, value string, there func(mailbox) bool) (time.Duration, error) {
		if err := w.waitIdle(ctx); err != nil {
			return 0, err
		}
		arrivals := w.watcher.expect(placed, []string{cluster}, there)
		_, err := w.its.dynamic.Resource(managedClusters).Patch(ctx, cluster, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, clusterLabel(len(w.mailboxes)), value), metav1.PatchOptions{})
		if err != nil {
			return 0, err
		}
		began := time.Now()
		if err := w.watcher.wait(ctx, arrivals, limit); err != nil {
			return 0, fmt.Errorf("label of %s: %w", cluster, err)
		}
		return arrivals.since(began).last, nil
	}
	for _, cluster := range w.mailboxes[:min(fleetLabels, len(w.mailboxes))] {
		took, err := change(cluster, "null", mailbox.empty)
		if err != nil {
			return nil, nil, err
		}
		left = append(left, took)
		if took, err = change(cluster, `"here"`, w.full); err != nil {
			return nil, nil, err
		}
		returned = append(returned, took)
	}
	return left, returned, nil
}

// restartLarge restarts the controllers, if this program started them, and returns the figures of
// that and those of the memory of the transport-controller before and after it.
func (s *stage) restartLarge(ctx context.Context, what string, r *result) (figures []figure, err error) {
	const transport = "transport-controller"
	most := r.memory[transport].peak
	if len(s.controllers) > 0 && s.controllers[0].own() {
		before, err := s.everything(ctx)
		if err != nil {
			return nil, err
		}
		ready, err := s.restarted(ctx, func() error { return nil })
		if err != nil {
			return nil, err
		}
		after, err := s.everything(ctx)
		if err != nil {
			return nil, err
		}
		writes := after.minus(before)
		figures = append(figures,
			figure{what: what + ": writes in a restart", value: writes.only(writeVerbs...).String(), goal: "none", missed: writes.total(writeVerbs...) > 0},
			figure{what: what + ": ready after a restart, s", value: seconds(ready)})
		r.samples = append(r.samples, sample{name: what + ", ready after a restart", took: ready})
		memory, err := s.memory(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range s.controllers {
			most = max(most, memory[transport].peak)
			figures = append(figures, figure{what: what + ": after a restart, resident memory of " + c.name, value: mib(memory[c.name].rss) + ", at most " + mib(memory[c.name].peak)})
		}
	}
	if most > 0 {
		figures = append(figures, figure{what: what + ": resident memory of " + transport + ", at most", value: mib(most), goal: "under " + mib(fleetMemory), missed: most >= fleetMemory})
	}
	return figures, nil
}

// memory returns the memory of the controllers, and of the processes of the spaces if this program
// started them.
func (s *stage) memory(ctx context.Context) (map[string]usage, error) {
	pids := map[string]int{}
	for _, c := range s.controllers {
		pids[c.name] = c.pid
	}
	if s.dir != "" {
		for _, component := range []string{"etcd", s.o.its + "/kube-apiserver", s.o.wds + "/kube-apiserver"} {
			pid, err := componentPID(ctx, s.dir, component)
			if err != nil {
				return nil, err
			}
			pids[component] = pid
		}
	}
	memory := map[string]usage{}
	for name, pid := range pids {
		u, err := usageOf(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		memory[name] = u
	}
	return memory, nil
}
