package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

type placementOptions struct {
	kubeconfig, wds, its string
	pids                 map[string]int
	scenarios            []string
	output               string
	check                bool
	note                 string
	// wecs and controllers are what an own fleet consists of beside a WDS and an ITS.
	wecs        int
	controllers []string

	qps         float32
	burst       int
	concurrency int

	objectSize                        int
	editObjects, editClusters         int
	largeObjects, largeClusters       int
	churnObjects, churnClusters       int
	churnRate, churnSeconds           int
	manyObjects, manyBound, manyRules int
	editRounds, largeRounds           int
}

// scenario is one thing to measure.
type scenario struct {
	name, what string
	run        func(ctx context.Context, s *stage) (result, error)
}

func scenarios() []scenario {
	return []scenario{
		{"edit", "an edit of one of some objects on some clusters", edit},
		{"edit-large", "an edit of one of many objects on many clusters", editLarge},
		{"place", "the first placement of many objects on many clusters, and the deletion of its policy", place},
		{"churn", "many edits of different objects", churn},
		{"restart", "a restart of the controllers with all that placed", restart},
		{"many", "very many objects in the WDS, of which some are placed by many policies", many},
	}
}

func newPlacementCommand() *cobra.Command {
	o := &placementOptions{controllers: []string{"binding-controller", "transport-controller"}}
	var help strings.Builder
	var names []string
	for _, s := range scenarios() {
		fmt.Fprintf(&help, "  %-11s %s\n", s.name, s.what)
		names = append(names, s.name)
	}
	cmd := &cobra.Command{
		Use:   "placement",
		Short: "Measure what placing on many simulated clusters costs, beside bare writes",
		Long: `Measure what placing on many simulated clusters costs, beside bare writes.

A simulated cluster is a ManagedCluster and its mailbox; there are no agents. Beside each measurement the same number of
ManifestWorks is written by this program alone: the same verbs, bytes and client settings, with an ordinary informer attached.
Without --kubeconfig, each scenario has a fleet and controllers of its own. With it, CPU time and memory are those of the
processes given by --controller, and what needs a restart is left out.

Scenarios:
` + help.String(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "Measure the spaces of this kubeconfig. Empty: start a fleet, and remove it afterwards.")
	f.StringVar(&o.wds, "wds-context", "wds1", "Context of the WDS.")
	f.StringVar(&o.its, "its-context", "its1", "Context of the ITS.")
	f.StringToIntVar(&o.pids, "controller", nil, "A process to be measured, as NAME=PID, with --kubeconfig. May be repeated.")
	f.StringSliceVar(&o.scenarios, "scenario", names, "What to measure.")
	f.StringVarP(&o.output, "output", "o", "table", "table, markdown, or bench for lines that benchstat reads.")
	f.StringVar(&o.note, "note", "", "A remark to print with the table: what else the machine did, say.")
	f.BoolVar(&o.check, "check", false, "Fail if a goal is missed.")
	f.Float32Var(&o.qps, "qps", 1000, "Bare writes per second.")
	f.IntVar(&o.burst, "burst", 2000, "Bare writes at once beyond the rate.")
	f.IntVar(&o.concurrency, "concurrency", 32, "Bare writes under way at once.")
	f.IntVar(&o.objectSize, "object-size", 500, "Bytes of an object, about.")
	f.IntVar(&o.editObjects, "edit-objects", 50, "Objects of edit.")
	f.IntVar(&o.editClusters, "edit-clusters", 50, "Clusters of edit.")
	f.IntVar(&o.editRounds, "edit-rounds", 15, "How often edit is repeated.")
	f.IntVar(&o.largeObjects, "large-objects", 100, "Objects of edit-large, place and restart.")
	f.IntVar(&o.largeClusters, "large-clusters", 1000, "Clusters of edit-large, place and restart.")
	f.IntVar(&o.largeRounds, "large-rounds", 4, "How often edit-large and place are repeated.")
	f.IntVar(&o.churnObjects, "churn-objects", 1000, "Objects of churn.")
	f.IntVar(&o.churnClusters, "churn-clusters", 10, "Clusters of churn.")
	f.IntVar(&o.churnRate, "churn-rate", 20, "Edits a second of churn.")
	f.IntVar(&o.churnSeconds, "churn-seconds", 30, "How long churn lasts.")
	f.IntVar(&o.manyObjects, "many-objects", 100000, "Objects of many.")
	f.IntVar(&o.manyBound, "many-bound", 1000, "Objects of many that are bound.")
	f.IntVar(&o.manyRules, "many-policies", 200, "Policies of many.")
	return cmd
}

func (o *placementOptions) validate() error {
	if !slices.Contains([]string{"table", "markdown", "bench"}, o.output) {
		return fmt.Errorf("--output %q: table, markdown or bench", o.output)
	}
	for _, name := range o.scenarios {
		if !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.name == name }) {
			return fmt.Errorf("--scenario: there is no %q", name)
		}
	}
	for name, n := range map[string]int{
		"concurrency": o.concurrency, "burst": o.burst, "edit-objects": o.editObjects, "edit-clusters": o.editClusters, "edit-rounds": o.editRounds,
		"large-objects": o.largeObjects, "large-clusters": o.largeClusters, "large-rounds": o.largeRounds,
		"churn-objects": o.churnObjects, "churn-clusters": o.churnClusters, "churn-rate": o.churnRate, "churn-seconds": o.churnSeconds,
		"many-objects": o.manyObjects, "many-bound": o.manyBound, "many-policies": o.manyRules,
	} {
		if n < 1 {
			return fmt.Errorf("--%s %d: at least 1", name, n)
		}
	}
	if o.churnRate*o.churnSeconds > o.churnObjects {
		return fmt.Errorf("--churn-objects %d: no object is edited twice, and there are %d edits", o.churnObjects, o.churnRate*o.churnSeconds)
	}
	if o.manyBound+o.manyBound/o.manyRules > o.manyObjects || o.manyBound < o.manyRules {
		return fmt.Errorf("--many-bound %d: between --many-policies and --many-objects", o.manyBound)
	}
	if len(o.pids) > 0 && o.kubeconfig == "" {
		return errors.New("--controller without --kubeconfig: the controllers of an own fleet are known")
	}
	return nil
}

func (o *placementOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	var results []result
	var errs []error
	for _, s := range scenarios() {
		if !slices.Contains(o.scenarios, s.name) || ctx.Err() != nil {
			continue
		}
		done := step("%s: %s", s.name, s.what)
		r, err := o.play(ctx, s)
		done()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
		r.scenario = s.name
		results = append(results, r)
	}
	o.print(os.Stdout, results)
	if o.check {
		for _, r := range results {
			errs = append(errs, r.missed()...)
		}
	}
	return errors.Join(errs...)
}

func (o *placementOptions) play(ctx context.Context, s scenario) (r result, err error) {
	stage, closeStage, err := newStage(ctx, o)
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	return s.run(ctx, stage)
}
