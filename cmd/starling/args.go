package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArgs returns a usage error if there are arguments.
func noArgs(c *cobra.Command, args []string) error {
	if err := cobra.NoArgs(c, args); err != nil {
		return usage(err)
	}
	return nil
}

// oneArg returns a usage error unless there is exactly one argument.
func oneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(fmt.Errorf("%q requires exactly one argument: %s", c.CommandPath(), name))
		}
		return nil
	}
}
