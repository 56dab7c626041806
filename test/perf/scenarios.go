package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// outputs are the formats of a report.
var outputs = []string{"table", "markdown", "bench"}

// outputHelp is the help of the flag for the format.
const outputHelp = "Output format. One of: (table, markdown, bench). With bench, lines for benchstat."

func validOutput(output string) error {
	if !slices.Contains(outputs, output) {
		return fmt.Errorf("invalid --output %q: must be table, markdown or bench", output)
	}
	return nil
}

// scenario is a measurement. It runs on a stage, whose type depends on the command.
type scenario[T any] struct {
	name, what string
	run        func(ctx context.Context, on T) (result, error)
	// long scenarios run only if they are named.
	long bool
}

// choice has the scenarios of a command, and the options that all commands with scenarios share.
type choice[T any] struct {
	all []scenario[T]

	scenarios []string
	output    string
	check     bool
	note      string
}

// command returns a command with these options. Its help lists the scenarios.
func (c *choice[T]) command(use, short, long string, run func(ctx context.Context) error) *cobra.Command {
	var help strings.Builder
	var names []string
	for _, s := range c.all {
		what := s.what
		if s.long {
			what += " (only if named)"
		} else {
			names = append(names, s.name)
		}
		fmt.Fprintf(&help, "  %-11s %s\n", s.name, what)
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + ".\n\n" + long + "\n\nScenarios:\n" + help.String(),
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&c.scenarios, "scenario", names, "Scenarios to run.")
	f.StringVarP(&c.output, "output", "o", outputs[0], outputHelp)
	f.StringVar(&c.note, "note", "", "A note to print with the table, such as the load of the machine.")
	f.BoolVar(&c.check, "check", false, "If true, fail if a goal is missed.")
	return cmd
}

// validate returns an error if an option, or one of the numbers by the names of their flags, is
// invalid.
func (c *choice[T]) validate(numbers map[string]int) error {
	if err := validOutput(c.output); err != nil {
		return err
	}
	for _, name := range c.scenarios {
		if !slices.ContainsFunc(c.all, func(s scenario[T]) bool { return s.name == name }) {
			return fmt.Errorf("invalid --scenario %q: must be one listed by --help", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		if n := numbers[name]; n < 1 {
			return fmt.Errorf("invalid --%s %d: must be greater than 0", name, n)
		}
	}
	return nil
}

// play runs the chosen scenarios and prints their results. It continues after a scenario has
// failed.
func (c *choice[T]) play(ctx context.Context, benchmark, note string, play func(context.Context, scenario[T]) (result, error)) error {
	var results []result
	var errs []error
	for _, s := range c.all {
		if !slices.Contains(c.scenarios, s.name) || ctx.Err() != nil {
			continue
		}
		done := step("%s: %s", s.name, s.what)
		r, err := play(ctx, s)
		done()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
		r.scenario = s.name
		results = append(results, r)
	}
	if c.note != "" {
		note = strings.TrimPrefix(note+"\n"+c.note, "\n")
	}
	printResults(os.Stdout, c.output, benchmark, note, results)
	if c.check {
		for _, r := range results {
			errs = append(errs, r.missed()...)
		}
	}
	return errors.Join(errs...)
}
