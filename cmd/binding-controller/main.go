// Command binding-controller runs beside a workload definition space (WDS): it turns
// BindingPolicies into Bindings, and returns the status of delivered objects.
package main

import (
	"os"

	"github.com/starlinghq/starling/pkg/runner"
)

func main() {
	os.Exit(runner.Main(newCommand()))
}
