package space

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Down ends all processes of the fleet. With del it removes the directory of the fleet too.
func (f *Fleet) Down(ctx context.Context, del bool) error {
	if _, err := os.Stat(f.layout.Dir); errors.Is(err, fs.ErrNotExist) {
		f.out.say("There is no fleet in %s.", f.layout.Dir)
		return nil
	}
	unlock, err := f.lockCommands()
	if err != nil {
		return err
	}
	defer unlock()
	client, err := f.connect(ctx)
	switch {
	case errors.Is(err, errDown):
		f.out.say("The fleet in %s is not running.", f.layout.Dir)
	case err != nil:
		return err
	default:
		if err := f.out.step("all processes ended", func() error { return f.stopSupervisor(ctx, client) }); err != nil {
			return err
		}
	}
	if err := f.endLeftovers(ctx); err != nil {
		return err
	}
	if !del {
		return nil
	}
	// Not just any directory: one that holds a fleet, or what is left of one.
	if _, err := os.Stat(f.layout.FleetFile()); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no fleet: it is left as it is", f.layout.Dir)
	}
	if err := os.RemoveAll(f.layout.Dir); err != nil {
		return fmt.Errorf("remove %s: %w", f.layout.Dir, err)
	}
	f.out.say("%s is removed.", f.layout.Dir)
	return nil
}
