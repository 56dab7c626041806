package main

import (
	"github.com/spf13/cobra"
)

func newLogsCommand(g *global) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print the log of a component",
		Example: `  starling logs wds1/binding-controller
  starling logs -f cluster1/klusterlet
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
			fleet, err := g.fleet(nil)
			if err != nil {
				return err
			}
			return fleet.Logs(ctx, c.OutOrStdout(), args[0], follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until interrupted")
	return cmd
}
