package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newKubeconfigCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the fleet's kubeconfig",
		Long: `Print the path of the fleet's kubeconfig. It has a context for each space: wds1, its1, cluster1 and so on. The
default context is the first workload definition space.`,
		Example: `  # Use the fleet with your own kubectl
  export KUBECONFIG="$(starling kubeconfig)"
  kubectl --context its1 get managedclusters`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			fleet, err := g.fleet(c.ErrOrStderr())
			if err != nil {
				return err
			}
			if _, err := fleet.Load(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), fleet.Layout().Kubeconfig())
			return err
		},
	}
	return cmd
}
