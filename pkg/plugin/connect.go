package plugin

import (
	"regexp"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Connected returns a command that is proposed to the caller, with the flags by which the caller
// has chosen the space: without them it could change another one. A text that is no command of
// kubectl, or that is for another space, stays as it is.
func Connected(command string, flags *genericclioptions.ConfigFlags, itsContexts []string) string {
	if first, second, piped := strings.Cut(command, " | "); piped {
		return Connected(first, flags, itsContexts) + " | " + Connected(second, flags, itsContexts)
	}
	if !strings.HasPrefix(command, "kubectl ") {
		return command
	}
	command, comment, has := strings.Cut(command, "   #")
	with := func(flag string, value *string) {
		if value != nil && *value != "" {
			command += " --" + flag + " " + shellWord(*value)
		}
	}
	if !strings.Contains(command, " --context ") {
		with("context", flags.Context)
	}
	with("kubeconfig", flags.KubeConfig)
	if readsITSes.MatchString(command) {
		for _, its := range itsContexts {
			with("its-context", &its)
		}
	}
	if has {
		command += "   #" + comment
	}
	return command
}

// ConnectAll returns commands as Connected does.
func ConnectAll(commands []string, flags *genericclioptions.ConfigFlags, itsContexts []string) []string {
	all := make([]string, len(commands))
	for i, command := range commands {
		all[i] = Connected(command, flags, itsContexts)
	}
	return all
}

// Connected is as the function of this name.
func (f *ITSFlags) Connected(command string) string { return Connected(command, f.flags, f.contexts) }

// ConnectAll returns commands as Connected does.
func (f *ITSFlags) ConnectAll(commands []string) []string {
	return ConnectAll(commands, f.flags, f.contexts)
}

// readsITSes matches the commands that have the flag --its-context.
var readsITSes = regexp.MustCompile(`^kubectl starling (clusters?|explain|plan|rollout|tree)( |$)`)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellWord quotes a value for a shell, if that is necessary.
func shellWord(value string) string {
	if plainWord.MatchString(value) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
