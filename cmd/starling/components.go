package main

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// newComponentCommands returns the hidden subcommands that are the processes of a fleet. Each is
// called as `starling <component> --dir DIR [--space SPACE] -- <the component's own flags>`: DIR and
// SPACE are there for whoever reads the list of processes.
func newComponentCommands() []*cobra.Command {
	return append(ocmComponents(),
		newComponentCommand("etcd", newEtcdCommand),
		newComponentCommand("kube-apiserver", kubeapiserver.NewAPIServerCommand),
		newComponentCommand("kube-controller-manager", kubecontrollermanager.NewControllerManagerCommand),
		newComponentCommand("kube-scheduler", func() *cobra.Command { return kubescheduler.NewSchedulerCommand() }),
		newComponentCommand("etcd-clear", newEtcdClearCommand),
	)
}

// newComponentCommand wraps a command of another project. It is made only when it is run: making
// one registers flags and signal handlers for the whole process.
func newComponentCommand(name string, build func() *cobra.Command) *cobra.Command {
	var space string
	cmd := &cobra.Command{
		Use:    name,
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			trimSoon()
			showForeignFlags()
			inner := build()
			inner.SetArgs(args)
			return cli.RunNoErrOutput(inner)
		},
	}
	cmd.Flags().StringVar(&space, "space", "", "the space that the component serves")
	return cmd
}
