package plugin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/core/text"
)

// Completion returns completions for an argument or a flag.
type Completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// Matching returns the names with the prefix begun that are not given yet, sorted.
func Matching(names, given []string, begun string) []string {
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(given, name)
	})
	slices.Sort(found)
	return found
}

// RegisterValues completes a flag with fixed values.
func RegisterValues(cmd *cobra.Command, flag string, values func() []string) {
	RegisterFunc(cmd, flag, func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return Matching(values(), nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
}

// RegisterFunc completes a flag.
func RegisterFunc(cmd *cobra.Command, flag string, f Completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic("plugin: " + err.Error()) // the flag does not exist
	}
}

// ArgCount checks the number of arguments. Its error lists them.
func ArgCount(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		accepted := text.Count(most, "argument")
		switch {
		case least == 0:
			accepted = "at most " + accepted
		case least < most:
			accepted = fmt.Sprintf("%d to %s", least, accepted)
		}
		return fmt.Errorf("accepts %s, received %d: %s\nSee '%s -h' for help and examples", accepted, len(args), cmd.UseLine(), cmd.CommandPath())
	}
}
