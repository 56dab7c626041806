package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is the result of a scenario.
type result struct {
	scenario    string
	comparisons []comparison
	figures     []figure
	// samples are single measurements, for benchstat.
	samples []sample
	// memory is the memory of the controllers at the end.
	memory map[string]usage
}

// sample is one measurement, and that of the bare writes if there is one.
type sample struct {
	name       string
	took, bare time.Duration
}

// figure is a measured value.
type figure struct {
	what, value, goal string
	missed            bool
}

// result returns the result of comparisons, with the current memory.
func (s *stage) result(comparisons ...comparison) (result, error) {
	r := result{comparisons: comparisons, memory: map[string]usage{}}
	for _, c := range s.controllers {
		u, err := usageOf(c.pid)
		if err != nil {
			return result{}, fmt.Errorf("%s: %w", c.name, err)
		}
		r.memory[c.name] = u
	}
	return r, nil
}

// spread is the median, the minimum and the maximum of some values.
type spread[T cmp.Ordered] struct{ least, median, most T }

func spreadOf[T cmp.Ordered](rounds []round, value func(*round) T) spread[T] {
	var values []T
	for i := range rounds {
		values = append(values, value(&rounds[i]))
	}
	slices.Sort(values)
	return spread[T]{least: values[0], median: values[len(values)/2], most: values[len(values)-1]}
}

func (r *round) ratio() float64 { return r.real.last.Seconds() / r.bare.last.Seconds() }

// wrongRequests returns the requests of the first round that sent other requests than the expected
// writes.
func (r *comparison) wrongRequests() (requests, bool) {
	for i := range r.rounds {
		if d := r.rounds[i].requests; d.total(writeVerbs...) != r.writes || d.total(readVerbs...) > 0 {
			return d, true
		}
	}
	return nil, false
}

// slow reports whether the last mailbox was later than a goal, in the median. Each round is
// compared with its own bare writes.
func (r *comparison) slow() bool {
	over := spreadOf(r.rounds, func(r2 *round) time.Duration {
		return r2.real.last - time.Duration(r.factor*float64(r2.bare.last)) - r.extra
	})
	last := spreadOf(r.rounds, func(r *round) time.Duration { return r.real.last })
	return over.median > 0 || r.most > 0 && last.median > r.most
}

func (r *comparison) goal() string {
	goal := fmt.Sprintf("%.1f", r.factor)
	if r.extra > 0 {
		goal += fmt.Sprintf(" + %d ms", r.extra.Milliseconds())
	}
	if r.most > 0 {
		goal += fmt.Sprintf(", at most %s s", seconds(r.most))
	}
	return goal
}

// missed returns an error for each missed goal.
func (r *result) missed() (errs []error) {
	for i := range r.comparisons {
		comparison := &r.comparisons[i]
		if requests, wrong := comparison.wrongRequests(); wrong {
			errs = append(errs, fmt.Errorf("%s: requests in the ITS: %s, want %d writes and no reads", comparison.name, requests, comparison.writes))
		}
		if comparison.slow() {
			errs = append(errs, fmt.Errorf("%s: the last mailbox was later than bare x %s", comparison.name, comparison.goal()))
		}
	}
	for _, f := range r.figures {
		if f.missed {
			errs = append(errs, fmt.Errorf("%s: %s: %s, want %s", r.scenario, f.what, f.value, f.goal))
		}
	}
	return errs
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// printResults prints the results of scenarios. The benchmark is the first part of the names in
// lines for benchstat.
func printResults(w io.Writer, output, benchmark, note string, results []result) {
	if output == "bench" {
		printBench(w, benchmark, results)
		return
	}
	fmt.Fprintf(w, "%d CPUs, %s/%s, %s; %s\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), time.Now().Format(time.DateOnly))
	if note != "" {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
	comparisons := [][]string{{"", "first mailbox s", "last mailbox s", "bare s", "ratio", "goal", "requests in the ITS", "CPU s"}}
	figures := [][]string{{"", "measured", "goal", ""}}
	for _, r := range results {
		for i := range r.comparisons {
			comparisons = append(comparisons, r.comparisons[i].row())
		}
		for _, f := range r.figures {
			figures = append(figures, f.row())
		}
	}
	memory := [][]string{{"resident memory at the end of", "process", "now", "at most"}}
	for _, r := range results {
		for _, name := range slices.Sorted(maps.Keys(r.memory)) {
			memory = append(memory, []string{r.scenario, name, mib(r.memory[name].rss), mib(r.memory[name].peak)})
		}
	}
	for _, table := range [][][]string{comparisons, figures, memory} {
		if len(table) > 1 {
			printTable(w, output, table)
		}
	}
}

func (f *figure) row() []string {
	if f.goal == "" {
		return []string{f.what, f.value, "", ""}
	}
	return []string{f.what, f.value, f.goal, verdict(!f.missed)}
}

func verdict(ok bool) string {
	if ok {
		return "yes"
	}
	return "MISSED"
}

func (r *comparison) row() []string {
	first := spreadOf(r.rounds, func(r *round) time.Duration { return r.real.first })
	last := spreadOf(r.rounds, func(r *round) time.Duration { return r.real.last })
	bare := spreadOf(r.rounds, func(r *round) time.Duration { return r.bare.last })
	ratio := spreadOf(r.rounds, func(r *round) float64 { return r.ratio() })
	requests, wrong := r.wrongRequests()
	if !wrong {
		requests = r.rounds[0].requests
	}
	var cpu []string
	for _, name := range slices.Sorted(maps.Keys(r.rounds[0].cpu)) {
		used := spreadOf(r.rounds, func(r *round) time.Duration { return r.cpu[name] })
		cpu = append(cpu, fmt.Sprintf("%s %s", name, seconds(used.median)))
	}
	between := func(s spread[time.Duration]) string {
		return fmt.Sprintf("%s (%s-%s)", seconds(s.median), seconds(s.least), seconds(s.most))
	}
	return []string{
		r.name, seconds(first.median), between(last), between(bare), fmt.Sprintf("%.2f (%.2f-%.2f)", ratio.median, ratio.least, ratio.most),
		r.goal() + " " + verdict(!r.slow()), requests.String() + " " + verdict(!wrong), strings.Join(cpu, ", "),
	}
}

// printTable prints rows. The first one is the header.
func printTable(out io.Writer, output string, rows [][]string) {
	if output == "markdown" {
		for i, row := range rows {
			fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(out, "|%s\n", strings.Repeat("---|", len(row)))
			}
		}
		fmt.Fprintln(out)
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // to a user's terminal: an error could not be shown
	fmt.Fprintln(out)
}

func printBench(w io.Writer, benchmark string, results []result) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH)
	plain := strings.NewReplacer(" ", "_", ",", "")
	for _, r := range results {
		for _, s := range r.samples {
			fmt.Fprintf(w, "%s/%s 1 %d ns/op", benchmark, plain.Replace(s.name), s.took.Nanoseconds())
			if s.bare > 0 {
				fmt.Fprintf(w, " %d bare-ns/op", s.bare.Nanoseconds())
			}
			fmt.Fprintln(w)
		}
		for _, comparison := range r.comparisons {
			name := plain.Replace(comparison.name)
			for i := range comparison.rounds {
				round := &comparison.rounds[i]
				var cpu time.Duration
				for _, used := range round.cpu {
					cpu += used
				}
				fmt.Fprintf(w, "%s/%s 1 %d ns/op %d bare-ns/op %.3f ratio %d cpu-ns/op\n", benchmark, name,
					round.real.last.Nanoseconds(), round.bare.last.Nanoseconds(), round.ratio(), cpu.Nanoseconds())
			}
		}
		for _, name := range slices.Sorted(maps.Keys(r.memory)) {
			fmt.Fprintf(w, "%s/%s/%s 1 %d peak-B\n", benchmark, r.scenario, plain.Replace(name), r.memory[name].peak)
		}
	}
}

var errLeftOut = errors.New("skipped: it requires controllers that this program started")
