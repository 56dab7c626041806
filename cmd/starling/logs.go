package main

import "github.com/spf13/cobra"

func newLogsCommand(g *global) *cobra.Command {
	return &cobra.Command{Use: "logs COMPONENT"}
}
