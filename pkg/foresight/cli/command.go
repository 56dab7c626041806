package cli

import (
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/plugin"
)

// options are common to all commands.
type options struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	itses *plugin.ITSFlags
	clock clock.PassiveClock
	// terminal is true if ErrOut is a terminal.
	terminal bool
}

// NewPlanCommand returns the command `plan`. The flags connect to the WDS.
func NewPlanCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	o := newOptions(flags, streams)
	cmd := newPlanCommand(o)
	o.itses.AddTo(cmd)
	return cmd
}

func newOptions(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *options {
	file, isFile := streams.ErrOut.(*os.File)
	return &options{IOStreams: streams, flags: flags, itses: plugin.NewITSFlags(flags), clock: clock.RealClock{}, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

func (o *options) progress(format string, args ...any) *plugin.Progress {
	return plugin.StartProgress(o.ErrOut, o.terminal, format, args...)
}

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }
