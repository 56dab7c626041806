package main

import (
	"github.com/spf13/cobra"
)

func newLogsCommand(g *global) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print the log of a component",
		Long: `Print the log of a component. The name of a program is enough if only one space runs it. "starling status" lists
the components; "supervisor" is one of them.`,
		Example: `  # Print the log of the binding-controller in wds1
  starling logs wds1/binding-controller

  # Follow the log of OCM's agent in cluster1
  starling logs -f cluster1/klusterlet

  # Print the log of etcd, which serves all spaces
  starling logs etcd`,
		Args: oneArg("COMPONENT"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			fleet, err := g.fleet(nil)
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			names, err := fleet.ComponentNames()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signalContext(c.Context())
			defer stop()
			fleet, err := g.fleet(c.ErrOrStderr())
			if err != nil {
				return err
			}
			return fleet.Logs(ctx, c.OutOrStdout(), args[0], follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "If true, stream the log until interrupted.")
	return cmd
}
