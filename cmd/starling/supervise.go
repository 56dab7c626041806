package main

import (
	"context"
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
			if dieWithFD > 0 {
				ctx = endWith(ctx, os.NewFile(uintptr(dieWithFD), "die-with"))
			}
			fleet, err := g.fleet(io.Discard)
			if err != nil {
				return err
			}
			return fleet.Supervise(ctx)
		},
	}
	cmd.Flags().IntVar(&dieWithFD, "die-with-fd", 0, "end when the other end of this pipe is closed")
	return cmd
}

// endWith returns a context that ends when nobody holds the other end of the pipe any more. The
// kernel closes it however the holder ends.
func endWith(ctx context.Context, pipe *os.File) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		cancel()
	}()
	return ctx
}
