package main

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	failure := func(command *cobra.Command, args ...string) string {
		if err := command.ParseFlags(args); err != nil {
			return err.Error()
		}
		command.SetContext(t.Context())
		return command.RunE(command, nil).Error()
	}
	golden.Texts(t,
		golden.Text{Heading: "Flags of agent", Text: newAgentCommand().Flags().FlagUsages()},
		golden.Text{Heading: "Flags of manager", Text: newManagerCommand().Flags().FlagUsages()},
		golden.Text{Heading: "agent without flags", Text: failure(newAgentCommand())},
		golden.Text{Heading: "agent --leader-elect", Text: failure(newAgentCommand(), "--cluster-name=c1", "--hub-kubeconfig=/hub", "--leader-elect")},
		golden.Text{Heading: "agent --workers=0", Text: failure(newAgentCommand(), "--cluster-name=c1", "--hub-kubeconfig=/hub", "--workers=0")},
		golden.Text{Heading: "agent --report-qps=0", Text: failure(newAgentCommand(), "--cluster-name=c1", "--hub-kubeconfig=/hub", "--report-qps=0")},
		golden.Text{Heading: "agent --report-burst=0", Text: failure(newAgentCommand(), "--cluster-name=c1", "--hub-kubeconfig=/hub", "--report-burst=0")},
	)
}
