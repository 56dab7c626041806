package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// errLocked means that another process holds the lock.
var errLocked = errors.New("locked by another process")

// lockFile takes an exclusive lock, or returns errLocked. The kernel releases the lock when the
// returned file is closed, and when the process ends.
func lockFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	for {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f, unix.LOCK_EX); err != nil {
			f.Close()
			return nil, err
		}
		// The last holder may have deleted the file after this process opened it. Then another
		// process can lock a new file of that name, so that lock is the one that counts.
		if sameFile(f, path) {
			return f, nil
		}
		f.Close()
	}
}

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	if err != nil {
		return fmt.Errorf("lock %q: %w", f.Name(), err)
	}
	return nil
}

func sameFile(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}

// lockWithin takes an exclusive lock that other processes hold for a moment only. It returns
// errLocked if one holds it longer than the timeout.
func lockWithin(ctx context.Context, path string, timeout time.Duration) (f *os.File, err error) {
	waitErr := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, timeout, true, func(context.Context) (bool, error) {
		f, err = lockFile(path)
		return !errors.Is(err, errLocked), nil
	})
	if waitErr != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return f, err
}

// isLocked reports whether another process holds the lock. It creates no file.
func isLocked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(flock(f, unix.LOCK_SH), errLocked)
}
