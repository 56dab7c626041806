package main

import "github.com/spf13/cobra"

func newStatusCommand(g *global) *cobra.Command {
	return &cobra.Command{Use: "status"}
}
