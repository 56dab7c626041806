package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/folder"
)

// Dir is a folder with the files of a package. Nothing outside of it is ever read or written,
// whatever links it contains.
type Dir struct {
	// name is the name that the user gave.
	name string
	root *os.Root
}

// maxMetadata bounds the file that describes the pulled revision, in bytes.
const maxMetadata = 4 << 20

// gitDirectory is not part of the package: packages are often edited in a git repository.
const gitDirectory = ".git"

// OpenDir opens an existing folder.
func OpenDir(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Dir{name: name, root: root}, nil
}

// CreateDir opens a folder, and creates it if it does not exist.
func CreateDir(name string) (*Dir, error) {
	if err := os.MkdirAll(name, 0o777); err != nil { //nolint:gosec // the user's umask applies
		return nil, err
	}
	return OpenDir(name)
}

// Close closes the folder.
func (d *Dir) Close() { d.root.Close() }

// Metadata describes the revision that was pulled into the folder; found is false if there is none.
func (d *Dir) Metadata() (m folder.Metadata, found bool, err error) {
	content, err := d.read(folder.MetadataName, maxMetadata)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if m, err = folder.ParseMetadata(content); err != nil {
		return m, true, fmt.Errorf("read file %q: %w", path.Join(d.name, folder.MetadataName), err)
	}
	return m, true, nil
}

// SetMetadata records the pulled revision.
func (d *Dir) SetMetadata(m folder.Metadata) error { return d.Write(folder.MetadataName, m.String()) }

// Empty reports whether the folder has at most a git directory.
func (d *Dir) Empty() (bool, error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		if entry.Name() != gitDirectory {
			return false, nil
		}
	}
	return true, nil
}

// Files reads the package. It refuses links, other irregular files, and files that no package may
// have.
func (d *Dir) Files() (kpt.Files, error) {
	files := kpt.Files{}
	size := 0
	err := fs.WalkDir(d.root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == gitDirectory && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir(), name == folder.MetadataName, name == gitDirectory:
			return nil
		case entry.Type()&fs.ModeSymlink != 0:
			return fmt.Errorf("read file %q: it is a symbolic link. A package may have regular files only", path.Join(d.name, name))
		case !entry.Type().IsRegular():
			return fmt.Errorf("read file %q: it is not a regular file", path.Join(d.name, name))
		case len(files) == kpt.MaxFiles:
			return fmt.Errorf("read folder %q: it has more than %d files", d.name, kpt.MaxFiles)
		}
		content, err := d.read(name, kpt.MaxBytes)
		if err != nil {
			return err
		}
		if size += len(name) + len(content); size > kpt.MaxBytes {
			return fmt.Errorf("read folder %q: it has more than %d bytes", d.name, kpt.MaxBytes)
		}
		files[name] = content
		return nil
	})
	if err != nil {
		return nil, err
	}
	if wrong := files.Check(); wrong != nil {
		return nil, fmt.Errorf("read folder %q: it is not a valid package:\n  %s", d.name, strings.Join(wrong, "\n  "))
	}
	return files, nil
}

// read reads a regular file of at most limit bytes.
func (d *Dir) read(name string, limit int64) (string, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("read file %q: it is not a regular file", path.Join(d.name, name))
	}
	f, err := d.root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return "", err
	}
	if int64(len(content)) > limit {
		return "", fmt.Errorf("read file %q: it has more than %d bytes", path.Join(d.name, name), limit)
	}
	return string(content), nil
}

// Write replaces a file atomically. An existing file keeps its mode.
func (d *Dir) Write(name, content string) (err error) {
	if dir := path.Dir(name); dir != "." {
		if err := d.root.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	mode := fs.FileMode(0o666)
	info, err := d.root.Lstat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("write file %q: it is not a regular file", path.Join(d.name, name))
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, temporary, err := d.createBeside(name, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.root.Remove(temporary))
		}
	}()
	_, err = f.WriteString(content)
	if info != nil && err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return d.root.Rename(temporary, name)
}

// createBeside creates a file with an unused name in the same directory.
func (d *Dir) createBeside(name string, mode fs.FileMode) (*os.File, string, error) {
	const tries = 100
	for i := range tries {
		temporary := path.Join(path.Dir(name), ".starling-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(i))
		f, err := d.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, temporary, err
		}
	}
	return nil, "", fmt.Errorf("write file %q: delete the temporary files .starling-* beside it first", path.Join(d.name, name))
}

// Remove deletes a file, and its parent directories as far as they become empty.
func (d *Dir) Remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		// A directory that is not empty, or cannot be read, remains.
		entries, err := fs.ReadDir(d.root.FS(), dir)
		if err != nil || len(entries) > 0 || d.root.Remove(dir) != nil {
			return nil //nolint:nilerr // the file is deleted, as requested
		}
	}
	return nil
}
