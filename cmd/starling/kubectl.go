package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func newKubectlCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:                   "kubectl [flags] -- ARGS",
		DisableFlagsInUseLine: true,
		Short:                 "Run kubectl with the fleet's kubeconfig",
		Long: `Run kubectl, which is part of this program, with the fleet's kubeconfig. Select a space with --context. The
default context is the first workload definition space.`,
		Example: `  # Create a Namespace in the workload definition space
  starling kubectl -- --context wds1 create namespace demo

  # List the clusters that the hub knows
  starling kubectl -- --context its1 get managedclusters

  # Why is an object not in a cluster?
  starling kubectl -- starling explain deployment/web --cluster cluster1`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			fleet, err := g.fleet(os.Stderr)
			if err != nil {
				return err
			}
			if _, err := fleet.Load(); err != nil {
				return err
			}
			if err := os.Setenv("KUBECONFIG", fleet.Layout().Kubeconfig()); err != nil {
				return err
			}
			if err := findPlugins(); err != nil {
				return err
			}
			return runKubectl(args)
		},
	}
}

// findPlugins makes kubectl find the plugin kubectl-starling beside this program. One that is found
// elsewhere in $PATH comes first.
func findPlugins() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return os.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Dir(program))
}

// runKubectl runs kubectl in this process. Most errors end the process, with the message and the
// exit code of kubectl.
func runKubectl(args []string) error {
	showForeignFlags()
	os.Args = append([]string{"kubectl"}, args...)
	cmd := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler([]string{"kubectl"}),
		Arguments:     os.Args,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	cmd.SetArgs(args)
	if err := cli.RunNoErrOutput(cmd); err != nil { // as kubectl's main does; it handles -v
		util.CheckErr(err)
	}
	return nil
}
