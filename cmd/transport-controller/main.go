// Command transport-controller runs beside a workload definition space (WDS): it delivers the
// objects that Bindings list to the mailboxes of clusters, as ManifestWorks of Open Cluster
// Management.
package main

import (
	"os"

	"github.com/starlinghq/starling/pkg/runner"
)

func main() {
	os.Exit(runner.Main(newCommand()))
}
