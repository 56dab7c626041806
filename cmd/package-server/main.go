// Package-server serves packages: the API porch.kpt.dev/v1alpha1, as an aggregated API server of a
// WDS.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/packages/functionrunner"
	"github.com/starlinghq/starling/pkg/runner"
)

func main() {
	// Functions run in processes of this program.
	worker, err := functionrunner.Main()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if worker {
		return
	}
	os.Exit(runner.Main(newCommand()))
}

func newCommand() *cobra.Command {
	o := newOptions()
	command := runner.NewCommand("package-server", "Serve packages: the API porch.kpt.dev/v1alpha1", o.runner, o.validate,
		func(ctx context.Context) error { return run(ctx, o) })
	o.addFlags(command.Flags())
	command.AddCommand(newFunctionHost())
	return command
}
