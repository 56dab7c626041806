package localfleet

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// minDisk is the disk space that a fleet needs to start: for etcd's files and the logs of a day.
const minDisk = 512 << 20

// checkDisk returns an error if the disk of dir has less than need bytes free. It creates dir.
func checkDisk(dir string, need uint64) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create directory %q: %w", dir, err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("get the free disk space of %q: %w", dir, err)
	}
	free := fs.Bavail * uint64(fs.Bsize)
	if free < need {
		return notEnoughSpace(dir, free, need)
	}
	return nil
}

func notEnoughSpace(dir string, free, need uint64) error {
	return fmt.Errorf("not enough disk space in %q: %d MiB are free, a fleet needs %d MiB. "+
		"Delete files, or use a directory on another disk with --dir", dir, free>>20, need>>20)
}

// explain adds to an error what to do about it, if that is known.
func (f *Fleet) explain(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w\nThe disk of %s is full. Delete files and run the command again", err, f.layout.Dir)
	}
	return err
}
