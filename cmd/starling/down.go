package main

import (
	"os"

	"github.com/spf13/cobra"
)

func newDownCommand(g *global) *cobra.Command {
	var del bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "End all processes of the fleet",
		Long:  `End all processes of the fleet. Its data stay for the next "up", unless --delete is given.`,
		Example: `  starling down
  starling down --delete           # and remove everything it has written`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			fleet, err := g.fleet(os.Stdout)
			if err != nil {
				return err
			}
			return fleet.Down(c.Context(), del)
		},
	}
	cmd.Flags().BoolVar(&del, "delete", false, "remove the fleet's directory too")
	return cmd
}
