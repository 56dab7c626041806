package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// noArgs refuses arguments, as an error of the command line.
func noArgs(c *cobra.Command, args []string) error {
	if err := cobra.NoArgs(c, args); err != nil {
		return usage(err)
	}
	return nil
}

// oneArg asks for one argument.
func oneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(fmt.Errorf("%s: one argument is asked for, %s", c.CommandPath(), name))
		}
		return nil
	}
}
