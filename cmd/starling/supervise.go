package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"
)

// newSuperviseCommand returns the command that `up` starts in the background.
func newSuperviseCommand(g *global) *cobra.Command {
	var dieWithFD int
	cmd := &cobra.Command{
		Use:    "supervise",
		Short:  "Run the components of the fleet, and restart them when they end",
		Hidden: true,
		Args:   noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signalContext(c.Context())
			defer stop()
			scheduleTrim()
			// The socket and the files of all components are private, whatever the umask is.
			syscall.Umask(0o077)
			fleet, err := g.fleet(io.Discard)
			if err != nil {
				return err
			}
			if dieWithFD == 0 {
				return fleet.Supervise(ctx)
			}
			testCtx := endWith(ctx, os.NewFile(uintptr(dieWithFD), "die-with"))
			if err := fleet.Supervise(testCtx); err != nil {
				return err
			}
			if errors.Is(context.Cause(testCtx), errTestEnded) {
				_, err := fleet.Layout().Delete() // the test can no longer do it
				return err
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&dieWithFD, "die-with-fd", 0, "File descriptor of a pipe. End when its other end is closed.")
	return cmd
}

var errTestEnded = errors.New("the test that started the fleet has ended")

// endWith returns a context that is canceled when no process holds the other end of the pipe. The
// kernel closes it however its holder ends.
func endWith(ctx context.Context, pipe *os.File) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		cancel(errTestEnded)
	}()
	return ctx
}
