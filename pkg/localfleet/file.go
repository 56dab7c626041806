package localfleet

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// writeFile replaces a file atomically, and blocks until the disk has it: after a power failure it
// has its old content or its new one. Only the user can access it, whatever the umask. A file that
// has this content already is not written.
func writeFile(path string, data []byte) error {
	if hasContent(path, data) {
		return nil
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	// The content is on the disk before the name is: the file is never empty.
	if err := errors.Join(err, tmp.Chmod(0o600), tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write %q: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// hasContent reports whether a file has that content, and nobody else can access it.
func hasContent(path string, data []byte) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		return false
	}
	old, err := os.ReadFile(path)
	return err == nil && bytes.Equal(old, data)
}

// syncDir blocks until the disk has the names of the files in a directory.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // not every file system supports it
		return fmt.Errorf("sync directory %q: %w", dir, err)
	}
	return nil
}
