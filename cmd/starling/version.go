package main

import (
	"fmt"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"

	"github.com/starlinghq/starling/pkg/version"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Starling and of its Kubernetes",
		Example: `  # Print the versions
  starling version`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "starling %s (Kubernetes %s)\n", version.Get(), kubeversion.Get().GitVersion)
			return err
		},
	}
}
