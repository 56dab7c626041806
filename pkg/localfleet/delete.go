package localfleet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// entries are the names of all that a fleet creates in its directory, in the order in which they
// are deleted. The files by which the directory is known as a fleet's are the last: if a deletion
// is interrupted, it can be repeated.
func (l Layout) entries() []string {
	var names []string
	for _, path := range []string{
		l.EtcdDir(), l.Spaces(), l.Logs(), l.Kubeconfig(), l.ComponentsFile(), l.SupervisorFile(), l.Socket(),
		l.FleetCopy(), l.FleetFile(), l.SupervisorLock(), l.CommandLock(),
	} {
		names = append(names, filepath.Base(path))
	}
	return names
}

// isTemporary reports whether writeFile creates files of that name for one of these entries.
func isTemporary(name string, entries []string) bool {
	return slices.ContainsFunc(entries, func(e string) bool { return strings.HasPrefix(name, "."+e+".") })
}

// checkEmpty returns an error if a new fleet cannot be created in the directory, because it has
// files: they could not be distinguished from those of the fleet.
func checkEmpty(l Layout) error {
	found, err := os.ReadDir(l.Dir)
	if err != nil {
		return err
	}
	for _, e := range found {
		if e.Name() != filepath.Base(l.CommandLock()) {
			return fmt.Errorf("directory %q has no fleet and is not empty: it has %q. Set an empty directory with --dir", l.Dir, e.Name())
		}
	}
	return nil
}

// Delete deletes all that the fleet has created. It returns the names of what else is in the
// directory, which stays.
func (l Layout) Delete() (kept []string, err error) {
	found, err := os.ReadDir(l.Dir)
	if err != nil {
		return nil, err
	}
	entries := l.entries()
	for _, e := range found {
		if isTemporary(e.Name(), entries) {
			entries = slices.Insert(entries, 0, e.Name())
		}
	}
	for _, name := range entries {
		if err := os.RemoveAll(filepath.Join(l.Dir, name)); err != nil {
			return nil, err
		}
	}
	rest, err := os.ReadDir(l.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range rest {
		kept = append(kept, e.Name())
	}
	if info, err := os.Lstat(l.Dir); err != nil || len(kept) > 0 || !info.IsDir() { // a symbolic link is the user's
		return kept, err
	}
	return nil, os.Remove(l.Dir)
}
