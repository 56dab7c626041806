// Package-server serves packages: the API porch.kpt.dev/v1alpha1, as an aggregated API server of a WDS.
package main

import (
	"fmt"
	"os"

	"github.com/starlinghq/starling/pkg/fnworker"
	"github.com/starlinghq/starling/pkg/runner"
)

func main() {
	// Functions run in processes of this program.
	worker, err := fnworker.Main()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if worker {
		return
	}
	os.Exit(runner.Main(newCommand()))
}
