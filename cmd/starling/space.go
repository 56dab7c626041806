package main

import "github.com/spf13/cobra"

// newSpaceCommand returns the commands that the pods of a hosted space run. Users install the
// charts instead.
func newSpaceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "space",
		Short: "Make what a space in a hosting cluster needs",
		Long: `Make what a space in a hosting cluster needs: certificates, credentials, APIs and backups.

The charts "space" and "starling" run these commands in Jobs. Each may run again at any time: it changes only what
differs.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newSpaceCertificatesCommand(), newSpaceInstallCommand(), newSpaceCredentialsCommand(),
		newSpaceBackupCommand(), newSpaceRestoreCommand())
	return cmd
}
