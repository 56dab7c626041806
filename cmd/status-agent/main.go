// Command status-agent is the status add-on: `status-agent manager` runs on an ITS and installs it
// in the clusters, `status-agent agent` runs in (or beside) each WEC and reports the state of what
// was delivered there.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/runner"
)

func main() { os.Exit(runner.Main(newCommand())) }

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "status-agent",
		Short: "Report the state of delivered objects to the hub",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(newManagerCommand(), newAgentCommand())
	return command
}
