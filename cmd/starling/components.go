package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/starlinghq/starling/cmd/starling/waitfor"
	"github.com/starlinghq/starling/cmd/starling/wdsserver"
)

// newComponentCommands returns the hidden subcommands that run the components of a fleet. Each is
// called as `starling <component> --dir DIR [--space SPACE] -- <flags of the component>`. DIR and
// SPACE are only shown in the list of processes. The servers of a WDS have the flag --wds, too.
func newComponentCommands() []*cobra.Command {
	return append(ocmComponents(),
		newComponentCommand("etcd", newEtcdCommand),
		newServerCommand("kube-apiserver", kubeapiserver.NewAPIServerCommand, wdsserver.NewAPIServerCommand),
		newServerCommand("kube-controller-manager", kubecontrollermanager.NewControllerManagerCommand,
			func(wdsserver.Options) *cobra.Command { return wdsserver.NewControllerManagerCommand() }),
		newComponentCommand("kube-scheduler", func() *cobra.Command { return kubescheduler.NewSchedulerCommand() }),
		newComponentCommand("etcd-clear", newEtcdClearCommand),
	)
}

// newServerCommand is newComponentCommand of a server that runs differently in a WDS, and that
// needs another server.
func newServerCommand(name string, ordinary func() *cobra.Command, ofWDS func(wdsserver.Options) *cobra.Command) *cobra.Command {
	var isWDS bool
	var o wdsserver.Options
	var needs []string
	cmd := newComponentCommand(name, func() *cobra.Command {
		waitfor.Any(context.Background(), needs, waitfor.Patience)
		if isWDS {
			return ofWDS(o)
		}
		return ordinary()
	})
	cmd.Flags().BoolVar(&isWDS, "wds", false, "Run the server of a WDS, which carries objects and does not act on them.")
	cmd.Flags().StringSliceVar(&needs, "wait-for", nil, fmt.Sprintf("URLs of servers. Start when one of them answers, after %s in any case.", waitfor.Patience))
	cmd.Flags().BoolVar(&o.CallServers, "call-servers", false, "With --wds: call the webhooks and API servers that users register.")
	return cmd
}

// newComponentCommand wraps a command of another project. The command is built only when it runs,
// because building it registers flags and signal handlers for the whole process.
func newComponentCommand(name string, build func() *cobra.Command) *cobra.Command {
	var space string
	cmd := &cobra.Command{
		Use:    name,
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			scheduleTrim()
			showForeignFlags()
			inner := build()
			inner.SetArgs(args)
			return cli.RunNoErrOutput(inner)
		},
	}
	cmd.Flags().StringVar(&space, "space", "", "Name of the space that the component serves.")
	return cmd
}
