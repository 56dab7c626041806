package testenv

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Run runs functions in the background until stop is called, or the test ends. If one of them
// returns an error, the others end too. Stop blocks until all have returned, and fails the test if
// one returned an error.
func Run(t testing.TB, functions ...func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	for _, function := range functions {
		group.Go(func() error { return function(ctx) })
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("ended with: %v", err)
			}
		case <-time.After(Patience):
			t.Error("does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// Workers returns a function for Run that runs a controller with n workers.
func Workers(run func(context.Context, int) error, n int) func(context.Context) error {
	return func(ctx context.Context) error { return run(ctx, n) }
}

// Ready blocks until all of these return no error.
func Ready(t testing.TB, ready ...func() error) {
	t.Helper()
	Eventually(t, Patience, func() (bool, string) {
		for _, check := range ready {
			if err := check(); err != nil {
				return false, err.Error()
			}
		}
		return true, ""
	})
}

// Leading returns a channel that is closed: the controller that receives it may write at once.
func Leading() <-chan struct{} {
	leading := make(chan struct{})
	close(leading)
	return leading
}
