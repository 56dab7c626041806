package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/test/testxpkg"
)

type transactionsOptions struct {
	choice[*transactionStage]

	packages               int
	providers, definitions int
	fields                 int
	clusters               int
	rounds                 int
}

func transactionsScenarios() []scenario[*transactionStage] {
	return []scenario[*transactionStage]{
		{name: "cold", what: "a Configuration that requires many packages in a deep tree, none of which is cached", run: coldTree},
		{name: "patch", what: "a new version of one of many providers, compared with bare writes of its CRDs", run: patchProvider},
		{name: "destinations", what: "an update that concerns many simulated clusters in five situations", run: manyDestinations},
		{name: "install", what: "one provider with as many CRDs as those of patch together", run: installLarge},
	}
}

const (
	coldGoal         = 2 * time.Second
	patchGoal        = 5 * time.Second
	destinationsGoal = 2 * time.Second
	patchMemory      = 250 << 20
	// besides is how many writes a Transaction may need besides those of the objects of its
	// package: its status, its Lock and the history, the revisions and the package.
	besides = 30

	bindingController = "binding-controller"
)

func newTransactionsCommand() *cobra.Command {
	o := &transactionsOptions{}
	o.all = transactionsScenarios()
	cmd := o.command("transactions", "Measure transactions of packages", "Each scenario starts a fleet and a registry, and removes them.", o.run)
	f := cmd.Flags()
	f.IntVar(&o.packages, "packages", 200, "Number of packages in the tree of cold.")
	f.IntVar(&o.providers, "providers", 30, "Number of providers in patch.")
	f.IntVar(&o.definitions, "definitions", 30, "Number of CRDs of each provider.")
	f.IntVar(&o.fields, "fields", 60, "Number of fields in each of the three parts of a CRD: 60 make 33 kB.")
	f.IntVar(&o.clusters, "clusters", 1000, "Number of clusters in destinations.")
	f.IntVar(&o.rounds, "rounds", 3, "Number of rounds of patch, after a first one that does not count.")
	return cmd
}

func (o *transactionsOptions) run(ctx context.Context) error {
	err := o.validate(map[string]int{
		"packages": o.packages, "providers": o.providers, "definitions": o.definitions, "fields": o.fields, "clusters": o.clusters, "rounds": o.rounds,
	})
	if err != nil {
		return err
	}
	return o.play(ctx, "BenchmarkTransactions", "", o.playOn)
}

// playOn runs a scenario on a new stage.
func (o *transactionsOptions) playOn(ctx context.Context, s scenario[*transactionStage]) (r result, err error) {
	t, closeStage, err := newTransactionStage(ctx, o)
	defer func() { err = errors.Join(err, closeStage()) }()
	if err != nil {
		return result{}, err
	}
	r, err = s.run(ctx, t)
	if err != nil {
		return r, err
	}
	end, err := t.result()
	r.memory = end.memory
	return r, err
}

// transactionStage is a fleet of API servers with the controllers of policies and of transactions,
// and a registry of packages.
type transactionStage struct {
	*stage
	o        *transactionsOptions
	registry *testxpkg.Registry
	watch    *transactionWatch
}

func newTransactionStage(ctx context.Context, o *transactionsOptions) (t *transactionStage, closeStage func() error, err error) {
	t = &transactionStage{stage: &stage{o: &placementOptions{concurrency: 10, wds: "wds1", its: "its1"}}, o: o}
	ctx, cancel := context.WithCancel(ctx)
	dir, remove, err := ownFleet(ctx, "--wecs", "0", "--no-ocm", "--no-controllers", "--no-packages", "--ephemeral", "--large")
	if err != nil {
		cancel()
		return t, func() error { return nil }, err
	}
	t.dir, closeStage = dir, func() error {
		cancel()
		if t.registry != nil {
			t.registry.Close()
		}
		return errors.Join(t.stop(), remove())
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if t.wds, err = newSpace(kubeconfig, "wds1", 5000, 5000); err != nil {
		return t, closeStage, err
	}
	if t.its, err = newSpace(kubeconfig, "its1", 5000, 5000); err != nil {
		return t, closeStage, err
	}
	if err := t.install(ctx); err != nil {
		return t, closeStage, err
	}
	root, err := moduleDir(ctx, "github.com/starlinghq/starling")
	if err != nil {
		return t, closeStage, err
	}
	if err := t.its.apply(ctx, filepath.Join(root, "config/crd/pkg.crossplane.io_locks.yaml")); err != nil {
		return t, closeStage, err
	}
	if t.registry, err = testxpkg.NewRegistry(); err != nil {
		return t, closeStage, err
	}
	if t.watch, err = watchTransactions(ctx, t.wds); err != nil {
		return t, closeStage, err
	}
	err = t.start(ctx, bindingController, "--controllers=binding,status,transactions")
	return t, closeStage, err
}

// start starts a controller and blocks until it is ready.
func (t *transactionStage) start(ctx context.Context, program string, flags ...string) error {
	c, err := ownController(ctx, t.dir, "wds1", "its1", program, flags...)
	if err != nil {
		return err
	}
	t.controllers = append(t.controllers, c)
	return c.waitReady(ctx)
}

// memoryFigure returns the largest resident memory of the binding-controller until now. Without a
// goal, most is 0.
func (t *transactionStage) memoryFigure(what string, most int64) (figure, error) {
	u, err := usageOf(t.controllers[0].pid)
	f := figure{what: what + ": resident memory of " + bindingController + ", at most", value: mib(u.peak)}
	if most > 0 {
		f.goal, f.missed = "under "+mib(most), u.peak >= most
	}
	return f, err
}

// timeFigure returns a duration in seconds. Without a goal, most is 0.
func timeFigure(what string, took, most time.Duration) figure {
	f := figure{what: what + ", s", value: fmt.Sprintf("%.2f", took.Seconds())}
	if most > 0 {
		f.goal, f.missed = fmt.Sprintf("under %.2f", most.Seconds()), took >= most
	}
	return f
}
