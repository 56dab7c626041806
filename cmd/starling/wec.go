package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/install/ocm"
	"github.com/starlinghq/starling/pkg/localfleet"
)

func newWECCommand(g *global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wec",
		Short: "Add or remove a workload execution cluster",
		Example: `  # Add a cluster
  starling wec add edge1

  # Remove it
  starling wec remove edge1`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newWECAddCommand(g), newWECRemoveCommand(g))
	return cmd
}

func newWECAddCommand(g *global) *cobra.Command {
	var labels []string
	var pending bool
	var rights ocm.WorkRights
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a workload execution cluster to the running fleet",
		Long: `Add a workload execution cluster to the running fleet. It joins the hub.

With --pending, the cluster only requests to join. You approve its certificate and accept the cluster, with two
commands that are printed. Then it joins.`,
		Example: `  # Add a cluster with labels
  starling wec add edge1 --labels site=edge,tier=gold

  # Add a cluster and approve it yourself
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
			return fleet.AddWEC(ctx, &localfleet.WEC{Name: args[0], Labels: parsed, Pending: pending, WorkRights: rights})
		},
	}
	cmd.Flags().StringSliceVar(&labels, "labels", nil, "Labels of the cluster, as key=value. The label name=NAME is added to them.")
	cmd.Flags().Var(&rights, "work-rights", "Rights of OCM's agent in the cluster: all, the default, or listed: those that you add, see docs/security.md.")
	cmd.Flags().BoolVar(&pending, "pending", false, "If true, do not approve the cluster. You approve it.")
	return cmd
}

func newWECRemoveCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Aliases: []string{"rm"},
		Short:   "Remove a workload execution cluster from the running fleet",
		Long: `Remove a workload execution cluster from the running fleet. OCM deletes the delivered objects from the cluster,
then the cluster from the hub. After that, the processes of the cluster end and its data is deleted.`,
		Example: `  # Remove a cluster and its data
  starling wec remove edge1`,
		Args: oneArg("NAME"),
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
