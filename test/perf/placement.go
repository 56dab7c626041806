package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

type placementOptions struct {
	choice[*stage]

	kubeconfig, wds, its string
	pids                 map[string]int
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

func placementScenarios() []scenario[*stage] {
	return []scenario[*stage]{
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
	o.all = placementScenarios()
	cmd := o.command("placement", "Measure what placing on many simulated clusters costs, beside bare writes",
		`A simulated cluster is a ManagedCluster and its mailbox; there are no agents. Beside each measurement the same number of
ManifestWorks is written by this program alone: the same verbs, bytes and client settings, with an ordinary informer attached.
Without --kubeconfig, each scenario has a fleet and controllers of its own. With it, CPU time and memory are those of the
processes given by --controller, and what needs a restart is left out.`, o.run)
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "Measure the spaces of this kubeconfig. Empty: start a fleet, and remove it afterwards.")
	f.StringVar(&o.wds, "wds-context", "wds1", "Context of the WDS.")
	f.StringVar(&o.its, "its-context", "its1", "Context of the ITS.")
	f.StringToIntVar(&o.pids, "controller", nil, "A process to be measured, as NAME=PID, with --kubeconfig. May be repeated.")
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
	if err := o.choice.validate(map[string]int{
		"concurrency": o.concurrency, "burst": o.burst, "edit-objects": o.editObjects, "edit-clusters": o.editClusters, "edit-rounds": o.editRounds,
		"large-objects": o.largeObjects, "large-clusters": o.largeClusters, "large-rounds": o.largeRounds,
		"churn-objects": o.churnObjects, "churn-clusters": o.churnClusters, "churn-rate": o.churnRate, "churn-seconds": o.churnSeconds,
		"many-objects": o.manyObjects, "many-bound": o.manyBound, "many-policies": o.manyRules,
	}); err != nil {
		return err
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
	note := fmt.Sprintf("objects of %d bytes; bare: %g writes a second, %d at once", o.objectSize, o.qps, o.concurrency)
	return o.play(ctx, "BenchmarkPlacement", note, o.playOn)
}

// playOn plays a scenario on a stage of its own.
func (o *placementOptions) playOn(ctx context.Context, s scenario[*stage]) (r result, err error) {
	stage, closeStage, err := newStage(ctx, o)
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	return s.run(ctx, stage)
}
