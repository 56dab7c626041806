package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/packages/functionhost"
)

// newFunctionHost returns the command that runs in containers of functions.
func newFunctionHost() *cobra.Command {
	var (
		install, listen string
		timeout         time.Duration
		maxBytes        int64
		atOnce          int
	)
	command := &cobra.Command{
		Use:   "function-host [flags] -- PROGRAM [ARGUMENTS]",
		Short: "Run the function of an image for package-servers, in a container of that image",
		Long: `Run the function of an image for package-servers, in a container of that image.

The chart runs it: see functions in its values.`,
		Example: `  # In an init container: copy this program into a volume
  package-server function-host --install /starling
  # In the container of the function, with that volume
  /starling/package-server function-host -- /usr/local/bin/function`,
		RunE: func(command *cobra.Command, program []string) error {
			switch {
			case install != "":
				return copyTo(install)
			case len(program) == 0:
				return errors.New("which program to run is missing: add -- PROGRAM")
			case timeout <= 0 || maxBytes <= 0 || atOnce < 1:
				return errors.New("--timeout, --max-bytes and --at-once must be positive")
			}
			return serveFunction(command.Context(), listen, functionhost.NewServer(program, atOnce, timeout, maxBytes))
		},
	}
	flags := command.Flags()
	flags.StringVar(&install, "install", "", "Copy this program into a directory, and end.")
	flags.StringVar(&listen, "listen", "0.0.0.0:8080", "Address on which to serve.")
	flags.DurationVar(&timeout, "timeout", 30*time.Second, "Maximum duration of a run. Longer ones are killed.")
	flags.Int64Var(&maxBytes, "max-bytes", functionhost.MaxBytes, "Maximum size of the input, and of the output, in bytes.")
	flags.IntVar(&atOnce, "at-once", 1, "Number of runs at the same time. Further ones wait. With 1, no process is left after a run.")
	return command
}

// copyTo copies this program into a directory.
func copyTo(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	const executable = 0o555
	to, err := os.OpenFile(filepath.Join(dir, "package-server"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, executable)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// serveFunction serves until the context ends.
func serveFunction(ctx context.Context, address string, handler http.Handler) error {
	const patience = 10 * time.Second
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return server.Shutdown(stopping)
}
