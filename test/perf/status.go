package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

type statusOptions struct {
	choice[*statusOptions]

	changes                   int
	clusters, objects, rounds int
	concurrency               int
	wecObjects, wecOurs       int
}

func statusScenarios() []scenario[*statusOptions] {
	return []scenario[*statusOptions]{
		{name: "return", what: "a change of a status in a cluster, returned to the object in the WDS and to a CombinedStatus", run: returnStatus},
		{name: "steady", what: "one change a second of the status of one object, returned to the object in the WDS", run: steadyStatus},
		{name: "quick", what: "ten changes a second of the status of one object, returned to the object in the WDS", run: quickStatus},
		{name: "absorb", what: "reports of many simulated clusters at once, compared with bare writes of them; and one more report", run: absorb},
		{name: "agent", what: "an agent in a cluster with many objects, of which few are delivered", run: agentMemory},
	}
}

func newStatusCommand() *cobra.Command {
	o := &statusOptions{}
	o.all = statusScenarios()
	cmd := o.command("status", "Measure how status returns", "Each scenario starts a fleet and removes it.", o.run)
	f := cmd.Flags()
	f.IntVar(&o.changes, "changes", 100, "Number of changes in return, steady and quick, one after the other.")
	f.IntVar(&o.clusters, "clusters", 1000, "Number of simulated clusters in absorb.")
	f.IntVar(&o.objects, "objects", 20, "Number of objects in absorb, each on every cluster.")
	f.IntVar(&o.rounds, "rounds", 3, "Number of rounds of absorb, after the first reports.")
	f.IntVar(&o.concurrency, "concurrency", 32, "Number of parallel reports.")
	f.IntVar(&o.wecObjects, "wec-objects", 10000, "Number of objects in the cluster of agent.")
	f.IntVar(&o.wecOurs, "wec-delivered", 100, "Number of these objects that are delivered.")
	return cmd
}

func (o *statusOptions) validate() error {
	if err := o.choice.validate(map[string]int{
		"changes": o.changes, "clusters": o.clusters, "objects": o.objects, "rounds": o.rounds, "concurrency": o.concurrency,
		"wec-objects": o.wecObjects, "wec-delivered": o.wecOurs,
	}); err != nil {
		return err
	}
	if o.wecOurs > o.wecObjects {
		return fmt.Errorf("invalid --wec-delivered %d: must be at most --wec-objects", o.wecOurs)
	}
	return nil
}

func (o *statusOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	return o.play(ctx, "BenchmarkStatus", "", func(ctx context.Context, s scenario[*statusOptions]) (result, error) { return s.run(ctx, o) })
}

// stage starts spaces without OCM, a number of clusters, and these controllers.
func (o *statusOptions) stage(ctx context.Context, wecs int, controllers ...string) (*stage, func() error, error) {
	return newStage(ctx, &placementOptions{
		wds: "wds1", its: "its1", qps: 10000, burst: 20000, concurrency: o.concurrency, wecs: wecs, controllers: controllers,
	})
}

// collector lists, for each cluster, the generation that its status is about.
const collector = `
apiVersion: control.kubestellar.io/v1alpha1
kind: StatusCollector
metadata: {name: starling-perf}
spec:
  select: [{name: observed, def: "returned.status.observedGeneration"}]
  limit: 1`

// returnStatus measures, with real OCM, how long a status takes from the WEC to the object in the
// WDS, and to its CombinedStatus. The time starts when the change is seen in the WEC, where the
// object's controller changes the status.
func returnStatus(ctx context.Context, o *statusOptions) (r result, err error) {
	dir, remove, err := ownFleet(ctx, "--wecs", "1")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c, err := newEditPath(ctx, &options{kubeconfig: filepath.Join(dir, "kubeconfig"), wds: "wds1", its: "its1", wec: "cluster1"})
	if err != nil {
		return result{}, err
	}
	if _, err := c.prepare(ctx, 0); err != nil {
		return result{}, err
	}
	combined := observe(ctx, c.wds.Resource(controlv1alpha1.CombinedStatuses).Namespace(name), combinedVersion)
	if _, err := c.wds.Resource(controlv1alpha1.StatusCollectors).Create(ctx, parse(collector, name, ""), metav1.CreateOptions{}); err != nil {
		return result{}, err
	}
	_, err = c.wds.Resource(controlv1alpha1.BindingPolicies).Patch(ctx, name, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/downsync/0/statusCollectors","value":["starling-perf"]}]`), metav1.PatchOptions{})
	if err != nil {
		return result{}, err
	}
	if err := seeAll(ctx, combined, objects, state{status: 1}); err != nil {
		return result{}, fmt.Errorf("wait for the CombinedStatus: %w", err)
	}
	var toObject, toTable []time.Duration
	for i := range o.changes {
		if err := quiet(ctx); err != nil {
			return result{}, err
		}
		value := int64(i + 2)
		times, err := c.editObject(ctx, value)
		if err != nil {
			return result{}, fmt.Errorf("change %d: %w", i, err)
		}
		table, err := combined.wait(ctx, state{object: measured(int(value % objects)), status: c.generation})
		if err != nil {
			return result{}, fmt.Errorf("change %d: wait for the CombinedStatus: %w", i, err)
		}
		const changed, returned = 3, 5
		toObject = append(toObject, max(0, times[returned].Sub(times[changed])))
		toTable = append(toTable, max(0, table.at.Sub(times[changed])))
	}
	for _, way := range []struct {
		what     string
		times    []time.Duration
		p50, p99 time.Duration
	}{
		{"WEC status to .status in the WDS", toObject, 40 * time.Millisecond, 250 * time.Millisecond},
		{"WEC status to CombinedStatus", toTable, 100 * time.Millisecond, 0},
	} {
		r.returns(way.what, way.times, way.p50, way.p99)
	}
	return r, nil
}

// returns adds the percentiles of times, with goals that are not 0.
func (r *result) returns(what string, times []time.Duration, p50, p99 time.Duration) {
	sorted := slices.Sorted(slices.Values(times))
	for _, q := range []struct {
		p    int
		goal time.Duration
	}{{50, p50}, {99, p99}} {
		got := quantile(sorted, q.p)
		f := figure{what: fmt.Sprintf("%s, p%d of %d, ms", what, q.p, len(sorted)), value: ms(got)}
		if q.goal > 0 {
			f.goal, f.missed = fmt.Sprintf("under %d", q.goal.Milliseconds()), got >= q.goal
		}
		r.figures = append(r.figures, f)
	}
	for _, t := range times {
		r.samples = append(r.samples, sample{name: what, took: t})
	}
}

// combinedVersion returns the state of an object as its CombinedStatus has it.
func combinedVersion(obj *unstructured.Unstructured) []state {
	results, _, err := unstructured.NestedSlice(obj.Object, "results")
	if err != nil || len(results) == 0 {
		return nil
	}
	first, _ := results[0].(map[string]any)
	rows, _, err := unstructured.NestedSlice(first, "rows")
	if err != nil || len(rows) == 0 {
		return nil
	}
	row, _ := rows[0].(map[string]any)
	columns, _, err := unstructured.NestedSlice(row, "columns")
	if err != nil || len(columns) == 0 {
		return nil
	}
	column, _ := columns[0].(map[string]any)
	text, _ := column["float"].(string)
	var observed int64
	if _, err := fmt.Sscan(text, &observed); err != nil {
		return nil
	}
	labels := obj.GetLabels()
	return []state{{object: labels["status.kubestellar.io/namespace"] + "/" + labels["status.kubestellar.io/name"], status: observed}}
}
