// Command perf measures Starling, or any other implementation of the control.kubestellar.io API: it needs nothing but
// kubeconfig contexts.
//
//	go run ./test/perf latency      # an edit's way from a WDS to a cluster and its status back, through real OCM
//	go run ./test/perf placement    # what placing on up to a thousand simulated clusters costs, beside bare writes
//	go run ./test/perf status       # how status comes back: latency, a thousand clusters at once, memory of an agent
//	go run ./test/perf packages     # the package store: lists, approvals, clones, beside bare writes; sets over a thousand clusters
//
// Without --kubeconfig each starts a fleet of its own and removes it. Two runs, before and after a change, are compared by their
// tables; for a comparison with statistics, -o bench prints lines for benchstat.
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
	command.AddCommand(newLatencyCommand(), newPlacementCommand(), newStatusCommand(), newPackagesCommand())
	return command.ExecuteContext(ctx)
}

func newLatencyCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure the way of an edit to a cluster and of its status back",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Measure the fleet of this kubeconfig. Empty: start one, and remove it afterwards.")
	flags.StringVar(&o.wds, "wds-context", "wds1", "Context of the WDS.")
	flags.StringVar(&o.its, "its-context", "its1", "Context of the ITS.")
	flags.StringVar(&o.wec, "wec-context", "cluster1", "Context of the WEC, and name of its ManagedCluster.")
	flags.IntVar(&o.edits, "edits", 300, "How many edits to make, one after the other.")
	flags.StringVarP(&o.output, "output", "o", outputs[0], outputHelp)
	return cmd
}
