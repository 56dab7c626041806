package main

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubeapiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kubecontrollermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubescheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// newComponentCommands returns the hidden subcommands that run the components of a fleet. Each is
// called as `starling <component> --dir DIR [--space SPACE] -- <flags of the component>`. DIR and
// SPACE are only shown in the list of processes.
func newComponentCommands() []*cobra.Command {
	return append(ocmComponents(),
		newComponentCommand("etcd", newEtcdCommand),
		newComponentCommand("kube-apiserver", kubeapiserver.NewAPIServerCommand),
		newComponentCommand("kube-controller-manager", kubecontrollermanager.NewControllerManagerCommand),
		newComponentCommand("kube-scheduler", func() *cobra.Command { return kubescheduler.NewSchedulerCommand() }),
		newComponentCommand("etcd-clear", newEtcdClearCommand),
	)
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
