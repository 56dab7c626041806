package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/space"
)

func newWECCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wec",
		Short: "Add and remove clusters",
		Args:  noArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newWECAddCommand(g), newWECRemoveCommand(g))
	return cmd
}

func newWECAddCommand(g *global) *cobra.Command {
	var labels []string
	var pending bool
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a cluster to the running fleet",
		Long: `Add a cluster to the running fleet and join it to the hub.

With --pending the cluster asks to join and no more: its certificate and the cluster itself are then
approved by you, with the two commands that are printed. All else goes on by itself.`,
		Example: `  starling wec add edge1 --labels site=edge,tier=gold
  starling wec add edge2 --pending`,
		Args: oneArg("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			parsed, err := parseLabels(labels)
			if err != nil {
				return err
			}
			ctx, stop := signalContext(c.Context())
			defer stop()
			fleet, err := g.fleet(os.Stdout)
			if err != nil {
				return err
			}
			return fleet.AddWEC(ctx, &space.WEC{Name: args[0], Labels: parsed, Pending: pending})
		},
	}
	cmd.Flags().StringSliceVar(&labels, "labels", nil, "labels of the cluster, key=value; name=NAME is one of them by default")
	cmd.Flags().BoolVar(&pending, "pending", false, "leave the approval of the cluster to you")
	return cmd
}

func newWECRemoveCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Remove a cluster and its data from the running fleet",
		Long: `Remove a cluster from the running fleet. First OCM removes from the cluster what was delivered to it and
forgets the cluster; then its processes end and its data are deleted.`,
		Example: `  starling wec remove edge1`,
		Args:    oneArg("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signalContext(c.Context())
			defer stop()
			fleet, err := g.fleet(os.Stdout)
			if err != nil {
				return err
			}
			return fleet.RemoveWEC(ctx, args[0])
		},
	}
}
