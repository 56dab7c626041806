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
	// wecs and controllers are what a fleet of this program has in addition to a WDS and an ITS.
	wecs        int
	controllers []string
	// transportFlags are more flags of the transport-controller.
	transportFlags []string

	// ocm says that the ITS has OCM's hub, whose webhooks check each write of a work.
	ocm bool

	qps         float32
	burst       int
	concurrency int

	objectSize                        int
	editObjects, editClusters         int
	largeObjects, largeClusters       int
	churnObjects, churnClusters       int
	churnRate, churnSeconds           int
	manyObjects, manyBound, manyRules int
	startObjects, startPolicies       int
	fleetObjects, fleetClusters       int
	editRounds, largeRounds           int
	fleetRounds                       int
}

func placementScenarios() []scenario[*stage] {
	return []scenario[*stage]{
		{name: "edit", what: "an edit of one of some objects on some clusters", run: edit},
		{name: "edit-large", what: "an edit of one of many objects on many clusters", run: editLarge},
		{name: "fair", what: "edits for one cluster while an edit for many clusters is delivered", run: fair},
		{name: "place", what: "the first placement of many objects on many clusters, and the deletion of its policy", run: place},
		{name: "churn", what: "many edits of different objects", run: churn},
		{name: "restart", what: "a restart of the controllers with the objects of edit-large and churn placed", run: restart},
		{name: "start", what: "a restart of the controllers with very many objects placed, and an edit at that moment", run: start},
		{name: "hand-over", what: "controllers that stand by become the leaders, with as many objects placed, and an edit at that moment", run: handOver},
		{name: "many", what: "very many objects in the WDS, of which many policies place some", run: many},
		{name: "fleet", what: "few objects on very many clusters: placement, edits, labels of clusters, a restart, and memory", run: largeFleet, long: true},
	}
}

func newPlacementCommand() *cobra.Command {
	o := &placementOptions{controllers: []string{"binding-controller", "transport-controller"}}
	o.all = placementScenarios()
	cmd := o.command("placement", "Measure placement on many simulated clusters, compared with bare writes",
		`A simulated cluster is a ManagedCluster and its mailbox; there are no agents. Beside each measurement the same number of
ManifestWorks is written by this program alone: the same verbs, bytes and client settings, with an ordinary informer attached.
Without --kubeconfig, each scenario has a fleet and controllers of its own. With it, CPU time and memory are those of the
processes given by --controller, and what needs a restart is left out.`, o.run)
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of a kubeconfig of the spaces to measure. If empty, a fleet is started and removed.")
	f.StringVar(&o.wds, "wds-context", "wds1", "Context of the WDS.")
	f.StringVar(&o.its, "its-context", "its1", "Context of the ITS.")
	f.StringToIntVar(&o.pids, "controller", nil, "A process to measure, as NAME=PID, with --kubeconfig. May be repeated.")
	f.StringSliceVar(&o.transportFlags, "transport-flags", nil, "More flags of the transport-controller, such as --target-num-wrapped=50.")
	f.BoolVar(&o.ocm, "ocm", false, "If true, the ITS has OCM's hub: its webhooks check each work, those of bare writes too.")
	f.Float32Var(&o.qps, "qps", 1000, "Maximum number of bare writes per second.")
	f.IntVar(&o.burst, "burst", 2000, "Maximum burst of bare writes above the rate.")
	f.IntVar(&o.concurrency, "concurrency", 32, "Number of parallel bare writes.")
	f.IntVar(&o.objectSize, "object-size", 500, "Approximate size of an object in bytes.")
	f.IntVar(&o.editObjects, "edit-objects", 50, "Number of objects in edit.")
	f.IntVar(&o.editClusters, "edit-clusters", 50, "Number of clusters in edit.")
	f.IntVar(&o.editRounds, "edit-rounds", 15, "Number of rounds of edit.")
	f.IntVar(&o.largeObjects, "large-objects", 100, "Number of objects in edit-large, fair, place and restart.")
	f.IntVar(&o.largeClusters, "large-clusters", 1000, "Number of clusters in edit-large, fair, place and restart.")
	f.IntVar(&o.largeRounds, "large-rounds", 4, "Number of rounds of edit-large, fair and place.")
	f.IntVar(&o.churnObjects, "churn-objects", 1000, "Number of objects in churn.")
	f.IntVar(&o.churnClusters, "churn-clusters", 10, "Number of clusters in churn.")
	f.IntVar(&o.churnRate, "churn-rate", 20, "Number of edits per second in churn.")
	f.IntVar(&o.churnSeconds, "churn-seconds", 30, "Duration of churn in seconds.")
	f.IntVar(&o.startObjects, "start-objects", 100000, "Number of objects in start and hand-over.")
	f.IntVar(&o.startPolicies, "start-policies", 100, "Number of policies in start and hand-over.")
	f.IntVar(&o.manyObjects, "many-objects", 100000, "Number of objects in many.")
	f.IntVar(&o.manyBound, "many-bound", 1000, "Number of objects in many that are bound.")
	f.IntVar(&o.manyRules, "many-policies", 200, "Number of policies in many.")
	f.IntVar(&o.fleetObjects, "fleet-objects", 20, "Number of objects in fleet.")
	f.IntVar(&o.fleetClusters, "fleet-clusters", 10000, "Number of clusters in fleet.")
	f.IntVar(&o.fleetRounds, "fleet-rounds", 2, "Number of rounds of edits in fleet, after a first one that does not count.")
	return cmd
}

func (o *placementOptions) validate() error {
	if err := o.choice.validate(map[string]int{
		"concurrency": o.concurrency, "burst": o.burst, "edit-objects": o.editObjects, "edit-clusters": o.editClusters, "edit-rounds": o.editRounds,
		"large-objects": o.largeObjects, "large-clusters": o.largeClusters, "large-rounds": o.largeRounds,
		"churn-objects": o.churnObjects, "churn-clusters": o.churnClusters, "churn-rate": o.churnRate, "churn-seconds": o.churnSeconds,
		"start-objects": o.startObjects, "start-policies": o.startPolicies, "many-objects": o.manyObjects, "many-bound": o.manyBound, "many-policies": o.manyRules,
		"fleet-objects": o.fleetObjects, "fleet-clusters": o.fleetClusters, "fleet-rounds": o.fleetRounds,
	}); err != nil {
		return err
	}
	if o.churnRate*o.churnSeconds > o.churnObjects {
		return fmt.Errorf("invalid --churn-objects %d: must be at least the number of edits, %d", o.churnObjects, o.churnRate*o.churnSeconds)
	}
	if o.startPolicies > o.startObjects {
		return fmt.Errorf("invalid --start-policies %d: must be at most --start-objects", o.startPolicies)
	}
	if o.largeObjects < 2 {
		return fmt.Errorf("invalid --large-objects %d: must be greater than 1", o.largeObjects)
	}
	if o.manyBound+o.manyBound/o.manyRules > o.manyObjects || o.manyBound < o.manyRules {
		return fmt.Errorf("invalid --many-bound %d: must be between --many-policies and --many-objects", o.manyBound)
	}
	if o.ocm && o.kubeconfig != "" {
		return errors.New("invalid --ocm: the spaces of --kubeconfig are as they are")
	}
	if len(o.pids) > 0 && o.kubeconfig == "" {
		return errors.New("invalid --controller: requires --kubeconfig")
	}
	return nil
}

func (o *placementOptions) run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	note := fmt.Sprintf("objects of %d bytes; bare: %g writes a second, %d at once", o.objectSize, o.qps, o.concurrency)
	if o.ocm {
		note += "; with OCM's hub and its webhooks"
	}
	return o.play(ctx, "BenchmarkPlacement", note, o.playOn)
}

// playOn runs a scenario on a new stage.
func (o *placementOptions) playOn(ctx context.Context, s scenario[*stage]) (r result, err error) {
	stage, closeStage, err := newStage(ctx, o)
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	return s.run(ctx, stage)
}
