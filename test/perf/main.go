// Command perf measures Starling, or any other implementation of the control.kubestellar.io API. It
// only needs kubeconfig contexts.
//
//	go run ./test/perf latency      # how long an edit takes from a WDS to a cluster, and its status back, with real OCM
//	go run ./test/perf placement    # placement on up to a thousand simulated clusters, compared with bare writes
//	go run ./test/perf status       # status return: latency, a thousand clusters at once, memory of an agent
//	go run ./test/perf packages     # the package store: lists, approvals, clones, compared with bare writes; sets for a thousand clusters
//	go run ./test/perf transactions # transactions of packages: deep trees, updates with many CRDs, a thousand clusters
//	go run ./test/perf foresight    # the commands that plan, explain and wait, with 100,000 objects and a thousand clusters
//
// Bare writes are the same requests, sent by this program itself: what the API servers alone need.
// Without --kubeconfig, each command starts a fleet and removes it. To compare two versions,
// compare their tables, or use -o bench, which prints lines for benchstat.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := &cobra.Command{
		Use:           "perf",
		Short:         "Measure an implementation of the control.kubestellar.io API",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newLatencyCommand(), newPlacementCommand(), newStatusCommand(), newPackagesCommand(), newTransactionsCommand(), newForesightCommand())
	return command.ExecuteContext(ctx)
}

func newLatencyCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure how long an edit takes to a cluster, and its status back",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of a kubeconfig of the fleet to measure. If empty, a fleet is started and removed.")
	flags.StringVar(&o.wds, "wds-context", "wds1", "Context of the WDS.")
	flags.StringVar(&o.its, "its-context", "its1", "Context of the ITS.")
	flags.StringVar(&o.wec, "wec-context", "cluster1", "Context of the WEC, which is the name of its ManagedCluster too.")
	flags.IntVar(&o.edits, "edits", 300, "Number of edits, one after the other.")
	flags.IntSliceVar(&o.beside, "beside", []int{0, 1000}, "Number of ConfigMaps that are not edited in the same policy. One measurement for each number.")
	flags.StringVarP(&o.output, "output", "o", outputs[0], outputHelp)
	flags.BoolVar(&o.check, "check", false, "If true, fail if a goal is missed.")
	return cmd
}
