package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Down stops all processes of the fleet. With del it deletes the files of the fleet too, and its
// directory if nothing else is in it.
func (f *Fleet) Down(ctx context.Context, del bool) error {
	if !hasFleet(f.layout) { // before the lock, which creates files
		if _, err := os.Stat(f.layout.Dir); del && err == nil {
			return fmt.Errorf("delete %q: the directory has no fleet; not deleted", f.layout.Dir)
		}
		f.out.printf("There is no fleet in %s.", f.layout.Dir)
		return nil
	}
	unlock, err := f.lockCommands()
	if err != nil {
		return err
	}
	defer unlock()
	var unresponsive *unresponsiveError
	switch err := f.connect(ctx); {
	case errors.As(err, &unresponsive) && unresponsive.info.alive():
		f.out.printf("The supervisor does not respond at %s. Sending SIGTERM to process %d.", f.layout.Socket(), unresponsive.info.PID)
		if err := f.out.step("supervisor ended", func() error { return f.terminate(ctx, &unresponsive.info) }); err != nil {
			return err
		}
	case errors.Is(err, errDown):
		f.out.printf("The fleet in %s is not running.", f.layout.Dir)
	case err != nil:
		return err
	default:
		if err := f.out.step("all processes stopped", func() error { return f.stopSupervisor(ctx) }); err != nil {
			return err
		}
	}
	if err := f.killOrphans(ctx); err != nil {
		return err
	}
	if !del {
		return nil
	}
	kept, err := f.layout.Delete()
	if err != nil {
		return fmt.Errorf("delete the files of the fleet in %q: %w", f.layout.Dir, err)
	}
	if len(kept) > 0 {
		f.out.printf("Deleted the fleet in %s. Kept what is not of the fleet: %s.", f.layout.Dir, strings.Join(kept, ", "))
		return nil
	}
	f.out.printf("Deleted %s.", f.layout.Dir)
	return nil
}
