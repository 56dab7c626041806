package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

type options struct {
	kubeconfig, wds, its, wec, output string
	edits                             int
	// beside are the numbers of other objects in the policy, one for each measurement.
	beside []int
	check  bool
}

// Goals of an edit in a policy of a thousand objects or fewer, and of their first placement.
const (
	editGoal     = 100 * time.Millisecond
	editGoalMost = 400 * time.Millisecond
	placedGoal   = 6 * time.Second
)

// stages are the parts of an edit's path. Each starts at the end of the one before.
var stages = []struct{ name, meaning string }{
	{"packaging", "accepted by the WDS -> work changed in the mailbox"},
	{"delivery", "work changed -> object changed in the WEC"},
	{"activation", "object changed -> its controller changed its status"},
	{"report", "status changed in the WEC -> WorkStatus in the mailbox"},
	{"finalization", "WorkStatus -> status of the object in the WDS"},
}

const (
	toWEC     = "WDS to WEC"
	whole     = "WDS to WEC and back"
	ocm       = "OCM alone: work to WEC"
	placedAll = "policy to all objects in the WEC"
	margin    = 30 * time.Second
	pause     = 250 * time.Millisecond
)

func (o *options) run(ctx context.Context) (err error) {
	if err := validOutput(o.output); err != nil {
		return err
	}
	if o.edits < 1 {
		return fmt.Errorf("invalid --edits %d: must be greater than 0", o.edits)
	}
	if i := slices.IndexFunc(o.beside, func(n int) bool { return n < 0 }); i >= 0 {
		return fmt.Errorf("invalid --beside %d: must not be negative", o.beside[i])
	}
	if o.kubeconfig == "" {
		dir, remove, err := ownFleet(ctx, "--wecs", "1")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
		o.kubeconfig = filepath.Join(dir, "kubeconfig")
	}
	var errs []error
	for _, others := range o.beside {
		results, err := o.measure(ctx, others)
		if err != nil {
			return fmt.Errorf("with %d other objects: %w", others, err)
		}
		o.print(others, results)
		if o.check {
			errs = append(errs, missedGoals(others, results)...)
		}
	}
	return errors.Join(errs...)
}

// measure returns the times of each part of the path, with so many other objects in the policy.
func (o *options) measure(ctx context.Context, others int) (results map[string][]time.Duration, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	path, err := newEditPath(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, path.clear(context.WithoutCancel(ctx))) }()
	took, err := path.prepare(ctx, others)
	if err != nil {
		return nil, err
	}
	results = map[string][]time.Duration{placedAll: {took}}
	for i := range o.edits {
		// OCM alone and the whole path are measured in turn, so that other load on the machine
		// affects both.
		if err := quiet(ctx); err != nil {
			return nil, err
		}
		bare, err := path.editWork(ctx, int64(i+2))
		if err != nil {
			return nil, fmt.Errorf("edit %d of the work: %w", i, err)
		}
		results[ocm] = append(results[ocm], bare)
		if err := quiet(ctx); err != nil {
			return nil, err
		}
		times, err := path.editObject(ctx, int64(i+2))
		if err != nil {
			return nil, fmt.Errorf("edit %d of the object: %w", i, err)
		}
		for j, stage := range stages {
			// Events of different API servers come over different connections: a later one may be
			// received first.
			results[stage.name] = append(results[stage.name], max(0, times[j+1].Sub(times[j])))
		}
		results[toWEC] = append(results[toWEC], times[2].Sub(times[0]))
		results[whole] = append(results[whole], times[5].Sub(times[0]))
	}
	return results, nil
}

func missedGoals(others int, results map[string][]time.Duration) (errs []error) {
	edits := slices.Sorted(slices.Values(results[toWEC]))
	for _, goal := range []struct {
		what       string
		took, most time.Duration
	}{
		{toWEC + ", p50", quantile(edits, 50), editGoal},
		{toWEC + ", p99", quantile(edits, 99), editGoalMost},
		{placedAll, results[placedAll][0], placedGoal},
	} {
		if goal.took > goal.most {
			errs = append(errs, fmt.Errorf("with %d other objects: %s: %s ms, want at most %s", others, goal.what, ms(goal.took), ms(goal.most)))
		}
	}
	return errs
}

// quiet waits until the effects of an edit have ended, such as OCM's report about the work: the
// measured fleet must be idle.
func quiet(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

func (o *options) print(others int, results map[string][]time.Duration) {
	if o.output == "bench" {
		fmt.Printf("goos: %s\ngoarch: %s\n", runtime.GOOS, runtime.GOARCH)
		for name, values := range results {
			for _, value := range values {
				fmt.Printf("BenchmarkLatency/beside=%d/%s 1 %d ns/op\n", others, strings.ReplaceAll(name, " ", "_"), value.Nanoseconds())
			}
		}
		return
	}
	fmt.Printf("%d edits of Deployments, one after the other, beside %d ConfigMaps in the same policy, on an idle fleet; %d CPUs, %s\n\n",
		o.edits, others, runtime.NumCPU(), runtime.GOARCH)
	rows := [][]string{{"ms", "p50", "p90", "p99", "max"}}
	for _, name := range slices.Concat(stageNames(), []string{toWEC, whole, ocm}) {
		values := slices.Sorted(slices.Values(results[name]))
		rows = append(rows, []string{name, ms(quantile(values, 50)), ms(quantile(values, 90)), ms(quantile(values, 99)), ms(values[len(values)-1])})
	}
	printTable(os.Stdout, o.output, rows)
	ours, bare := slices.Sorted(slices.Values(results[toWEC])), slices.Sorted(slices.Values(results[ocm]))
	fmt.Printf("WDS to WEC takes %.2f times what OCM alone takes (p50), %s ms more.\n", float64(quantile(ours, 50))/float64(quantile(bare, 50)),
		ms(quantile(ours, 50)-quantile(bare, 50)))
	fmt.Printf("All objects were in the WEC %s s after the policy was created.\n\n", seconds(results[placedAll][0]))
	for _, stage := range stages {
		fmt.Printf("%-13s %s\n", stage.name, stage.meaning)
	}
	fmt.Println()
}

func stageNames() (names []string) {
	for _, stage := range stages {
		names = append(names, stage.name)
	}
	return names
}

// quantile returns the p-th percentile of sorted values, by nearest rank.
func quantile(sorted []time.Duration, p int) time.Duration {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }

// number returns an integer field of an object, or -1 if it does not exist.
func number(obj *unstructured.Unstructured, fields ...string) int64 {
	value, found, err := unstructured.NestedInt64(obj.Object, fields...)
	if err != nil || !found {
		return -1
	}
	return value
}
