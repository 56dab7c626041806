package main

import (
	"os"

	"github.com/spf13/cobra"
)

func newDownCommand(g *global) *cobra.Command {
	var del bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the fleet",
		Long: `Stop all processes of the fleet. Its data is kept, and "starling up" starts the fleet again. With --delete,
all files of the fleet are deleted too, and its directory if nothing else is in it.`,
		Example: `  # Stop the fleet and keep its data
  starling down

  # Stop the fleet and delete its files
  starling down --delete`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			fleet, err := g.fleet(os.Stdout)
			if err != nil {
				return err
			}
			return fleet.Down(c.Context(), del)
		},
	}
	cmd.Flags().BoolVar(&del, "delete", false, "If true, delete the files of the fleet too.")
	return cmd
}
