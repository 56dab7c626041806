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
	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/pkg/version"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	// exitNotReady is the exit code of `starling status` if something in the fleet is not ready.
	exitNotReady = 3
)

// codedError is an error with an exit code.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// errNotReady has an exit code and no text: the status has been printed.
var errNotReady = codedError{error: errors.New(""), code: exitNotReady}

func exitCode(err error) int {
	if coded, ok := errors.AsType[codedError](err); ok {
		return coded.code
	}
	return exitFailed
}

// usage returns err with the exit code of an invalid command line.
func usage(err error) error { return codedError{error: err, code: exitUsage} }

// global has the flags that most commands share.
type global struct {
	dir    string
	binDir string
}

func newRootCommand() *cobra.Command {
	hideForeignFlags()
	g := &global{}
	root := &cobra.Command{
		Use:   "starling",
		Short: "Run a fleet of clusters on this machine",
		Long: `Starling delivers Kubernetes objects from one API server to a fleet of clusters, and returns their status.

This program runs a whole fleet on this machine, without containers. A fleet consists of spaces, each with its own
API server:

  wds1                 workload definition space: you write objects and policies here; nothing runs here
  its1                 inventory and transport space: a hub of Open Cluster Management
  cluster1, cluster2   workload execution clusters: Starling delivers the objects here`,
		Example: `  # Start a fleet with two clusters
  starling up

  # Write an object to the workload definition space
  starling kubectl -- --context wds1 create namespace demo

  # Show the processes and the clusters of the fleet
  starling status

  # Stop the fleet
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
	flags.StringVar(&g.dir, "dir", dir, "Directory of the fleet. Overrides the environment variable STARLING_DIR.")
	flags.StringVar(&g.binDir, "bin-dir", "", "Directory of Starling's other programs. If empty, the directory of this program is used.")

	root.AddCommand(
		newUpCommand(g), newDownCommand(g), newStatusCommand(g), newKubeconfigCommand(g),
		newKubectlCommand(g), newWECCommand(g), newLogsCommand(g), newVersionCommand(),
		newSuperviseCommand(g), newSpaceCommand(),
	)
	root.AddCommand(newComponentCommands()...)
	return root
}

// fleet returns the fleet in the directory that the flags name.
func (g *global) fleet(out io.Writer) (*localfleet.Fleet, error) {
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
	userDir, err := os.UserCacheDir()
	if err == nil { // otherwise there is no home directory
		userDir = filepath.Join(userDir, "starling")
	}
	file, isFile := out.(*os.File)
	return localfleet.New(localfleet.Config{
		Dir: g.dir, Executable: exe, BinDir: binDir, UserDir: userDir, Version: version.Get(), OCM: ocmManifests(), Charts: charts.FS,
		Out: out, Terminal: isFile && term.IsTerminal(int(file.Fd())),
	})
}

// signalContext returns a context that the first SIGINT or SIGTERM cancels. The second one ends the
// program at once.
func signalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
