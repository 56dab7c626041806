package space

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// minDisk is the room that a fleet needs to start: etcd's files and a day's logs.
const minDisk = 512 << 20

// checkDisk makes sure that there is room for a fleet.
func checkDisk(dir string, need uint64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", dir, err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free < need {
		return fmt.Errorf("the disk of %s has only %d MiB free, a fleet needs %d MiB: make room, or use another directory with --dir",
			dir, free>>20, need>>20)
	}
	return nil
}

// explain adds to an error what to do about it, where that is known and the error does not say.
func (f *Fleet) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w\nThe disk is full: make room in %s and run the command again", err, f.layout.Dir)
	}
	return err
}
