package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/starlinghq/starling/charts"
	"github.com/starlinghq/starling/pkg/space"
	"github.com/starlinghq/starling/pkg/version"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitNotReady is the exit code of `starling status` for a fleet that is not wholly ready.
	exitNotReady = 3
)

// codedError is an error with an exit code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// errNotReady has an exit code and nothing to say: what there is to say has been shown.
var errNotReady = codedError{error: errors.New(""), code: exitNotReady}

func exitCode(err error) int {
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	return exitFailed
}

// usage marks an error as one of the command line.
func usage(err error) error { return codedError{error: err, code: exitUsage} }

// global holds the flags that most commands share.
type global struct {
	dir    string
	binDir string
}

func newRootCommand() *cobra.Command {
	hideForeignFlags()
	g := &global{}
	root := &cobra.Command{
		Use:   "starling",
		Short: "A fleet of real spaces on this machine",
		Long: `Starling carries Kubernetes objects from one place to a fleet of clusters, and their status back.

This program runs a whole fleet on one machine, without containers: a workload definition space
(wds1), an inventory and transport space (its1) and workload execution clusters (cluster1, ...), each
with an API server of its own, joined by Open Cluster Management.`,
		Example: `  starling up                      # two clusters
  starling kubectl -- --context wds1 get ns
  starling status
  starling down`,
		Version:       version.Get(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	flags := root.PersistentFlags()
	dir := os.Getenv("STARLING_DIR")
	if dir == "" {
		dir = ".starling"
	}
	flags.StringVar(&g.dir, "dir", dir, "directory of the fleet; $STARLING_DIR where set")
	flags.StringVar(&g.binDir, "bin-dir", "", "directory of Starling's other programs (default that of this program)")

	root.AddCommand(
		newUpCommand(g), newDownCommand(g), newStatusCommand(g), newKubeconfigCommand(g),
		newKubectlCommand(g), newWECCommand(g), newLogsCommand(g), newVersionCommand(),
		newSuperviseCommand(g),
	)
	root.AddCommand(newComponentCommands()...)
	return root
}

// fleet returns the fleet that the flags name.
func (g *global) fleet(out io.Writer) (*space.Fleet, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return nil, err
	}
	binDir := g.binDir
	if binDir == "" {
		binDir = filepath.Dir(exe)
	}
	if binDir, err = filepath.Abs(binDir); err != nil {
		return nil, err
	}
	file, isFile := out.(*os.File)
	return space.New(space.Config{
		Dir: g.dir, Executable: exe, BinDir: binDir, Version: version.Get(), OCM: ocmManifests(), Charts: charts.FS,
		Out: out, Terminal: isFile && term.IsTerminal(int(file.Fd())),
	})
}

// signalContext ends with the first SIGINT or SIGTERM; a second one ends the program at once.
func signalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
