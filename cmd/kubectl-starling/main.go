// Kubectl-starling is the kubectl plugin `kubectl starling`.
package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"open-cluster-management.io/ocm/manifests"

	bundle "github.com/starlinghq/starling/pkg/bundle/cli"
	clusters "github.com/starlinghq/starling/pkg/clusters/cli"
	foresight "github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/packages/cli"
	"github.com/starlinghq/starling/pkg/plugin"
	transactions "github.com/starlinghq/starling/pkg/transactions/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	cmd := cli.NewCommand(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		func(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
			return clusters.NewCommand(flags, streams, manifests.KlusterletManifestFiles)
		},
		func(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
			return clusters.NewListCommand(flags, streams, clock.RealClock{})
		},
		func(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
			return bundle.NewCommand(flags, streams, cmp.Or(os.Getenv("STARLING_DIR"), ".starling"), clock.RealClock{})
		}, transactions.NewCommand, foresight.NewPlanCommand, foresight.NewExplainCommand, foresight.NewRolloutCommand, foresight.NewTreeCommand)
	os.Exit(plugin.Report(os.Stderr, cmd.ExecuteContext(ctx)))
}
