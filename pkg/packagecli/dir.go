package packagecli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/folder"
)

// Dir is a folder with the files of a package. Nothing outside of it is ever read or written, whatever links lie in it.
type Dir struct {
	// name is what the user called it.
	name string
	root *os.Root
}

// maxMetadata bounds the file that says what was pulled.
const maxMetadata = 4 << 20

// gitDirectory may lie at the top of a folder: packages are often edited in a git repository. It is no part of the package.
const gitDirectory = ".git"

// OpenDir opens a folder that is there.
func OpenDir(name string) (*Dir, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &Dir{name: name, root: root}, nil
}

// CreateDir opens a folder, and makes it if it is not there.
func CreateDir(name string) (*Dir, error) {
	if err := os.MkdirAll(name, 0o777); err != nil { //nolint:gosec // the umask is the user's
		return nil, err
	}
	return OpenDir(name)
}

// Close forgets the folder.
func (d *Dir) Close() { d.root.Close() }

// Metadata returns what was pulled into the folder; found is false if nothing was.
func (d *Dir) Metadata() (m folder.Metadata, found bool, err error) {
	content, err := d.read(folder.MetadataName, maxMetadata)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if m, err = folder.ParseMetadata(content); err != nil {
		return m, true, fmt.Errorf("%s: %w", path.Join(d.name, folder.MetadataName), err)
	}
	return m, true, nil
}

// SetMetadata notes what was pulled.
func (d *Dir) SetMetadata(m folder.Metadata) error { return d.Write(folder.MetadataName, m.String()) }

// Empty tells whether nothing is in the folder but a git directory.
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

// Files reads the package. Links and what else is no file are refused, and so is what no package can hold.
func (d *Dir) Files() (kptpkg.Files, error) {
	files := kptpkg.Files{}
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
			return fmt.Errorf("%s is a symbolic link; a package holds files only", path.Join(d.name, name))
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is no regular file", path.Join(d.name, name))
		case len(files) == kptpkg.MaxFiles:
			return fmt.Errorf("%s holds more than %d files", d.name, kptpkg.MaxFiles)
		}
		content, err := d.read(name, kptpkg.MaxBytes)
		if err != nil {
			return err
		}
		if size += len(name) + len(content); size > kptpkg.MaxBytes {
			return fmt.Errorf("%s holds more than %d bytes", d.name, kptpkg.MaxBytes)
		}
		files[name] = content
		return nil
	})
	if err != nil {
		return nil, err
	}
	if wrong := files.Check(); wrong != nil {
		return nil, fmt.Errorf("%s cannot be pushed:\n  %s", d.name, strings.Join(wrong, "\n  "))
	}
	return files, nil
}

// read reads a file that is no link and no larger than it may be.
func (d *Dir) read(name string, limit int64) (string, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path.Join(d.name, name))
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
		return "", fmt.Errorf("%s has more than %d bytes", path.Join(d.name, name), limit)
	}
	return string(content), nil
}

// Write writes a file as a whole or not at all. One that is there keeps its mode.
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
		return fmt.Errorf("%s is no regular file", path.Join(d.name, name))
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

// createBeside creates a file of a name that is not taken.
func (d *Dir) createBeside(name string, mode fs.FileMode) (*os.File, string, error) {
	const tries = 100
	for i := range tries {
		temporary := path.Join(path.Dir(name), ".starling-"+strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(i))
		f, err := d.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, temporary, err
		}
	}
	return nil, "", fmt.Errorf("write %s: files like .starling-… are in the way", path.Join(d.name, name))
}

// Remove removes a file, and the directories that are empty then.
func (d *Dir) Remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		// One that is not empty, or cannot be read, stays.
		entries, err := fs.ReadDir(d.root.FS(), dir)
		if err != nil || len(entries) > 0 || d.root.Remove(dir) != nil {
			return nil //nolint:nilerr // the file is gone, which is what was asked for
		}
	}
	return nil
}
