package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// newSuperviseCommand is the process that `up` leaves behind.
func newSuperviseCommand(g *global) *cobra.Command {
	var dieWithFD int
	cmd := &cobra.Command{
		Use:    "supervise",
		Short:  "Keep the components of a fleet running",
		Hidden: true,
		Args:   noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signalContext(c.Context())
			defer stop()
			trimSoon()
			fleet, err := g.fleet(io.Discard)
			if err != nil {
				return err
			}
			if dieWithFD == 0 {
				return fleet.Supervise(ctx)
			}
			test := endWith(ctx, os.NewFile(uintptr(dieWithFD), "die-with"))
			if err := fleet.Supervise(test); err != nil {
				return err
			}
			if errors.Is(context.Cause(test), errStarterGone) {
				return os.RemoveAll(fleet.Layout().Dir) // nobody is left who would do it
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&dieWithFD, "die-with-fd", 0, "end when the other end of this pipe is closed")
	return cmd
}

var errStarterGone = errors.New("the test that started the fleet is gone")

// endWith returns a context that ends when nobody holds the other end of the pipe any more. The
// kernel closes it however the holder ends.
func endWith(ctx context.Context, pipe *os.File) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		cancel(errStarterGone)
	}()
	return ctx
}
