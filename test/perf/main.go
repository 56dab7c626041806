// Command perf measures how long an edit takes from a workload definition space (WDS) to a workload execution cluster (WEC)
// and its status back, on an idle fleet, beside what OCM alone takes in the same run.
//
//	go run ./test/perf                          # on a fleet of its own
//	go run ./test/perf --kubeconfig .starling/kubeconfig
//
// It needs nothing but kubeconfig contexts, so it measures any implementation of the control.kubestellar.io API. Two runs,
// before and after a change, are compared by their tables; for a comparison with statistics, -o bench prints lines for
// benchstat.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o := &options{}
	cmd := &cobra.Command{
		Use:           "perf",
		Short:         "Measure the way of an edit to a cluster and of its status back",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Measure the fleet of this kubeconfig. Empty: start one, and remove it afterwards.")
	flags.StringVar(&o.wds, "wds-context", "wds1", "Context of the WDS.")
	flags.StringVar(&o.its, "its-context", "its1", "Context of the ITS.")
	flags.StringVar(&o.wec, "wec-context", "cluster1", "Context of the WEC, and name of its ManagedCluster.")
	flags.IntVar(&o.edits, "edits", 300, "How many edits to make, one after the other.")
	flags.StringVarP(&o.output, "output", "o", "table", "table, or bench for lines that benchstat reads.")
	return cmd.ExecuteContext(ctx)
}
