package localfleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

const followInterval = 200 * time.Millisecond

// Logs copies the log of a component to w. With follow it continues until ctx ends. The name is
// that of a component, "supervisor", or the name of a program that only one space runs.
func (f *Fleet) Logs(ctx context.Context, w io.Writer, name string, follow bool) error {
	component, err := f.findComponent(name)
	if err != nil {
		return err
	}
	file, err := os.Open(f.layout.Log(component))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("component %q has no log yet", component)
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for {
		n, err := io.Copy(w, file)
		if err != nil || !follow {
			return err
		}
		if info, err := file.Stat(); err == nil && n == 0 {
			// The log was rotated.
			if at, err := file.Seek(0, io.SeekCurrent); err == nil && at > info.Size() {
				_, _ = file.Seek(0, io.SeekStart)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.clock.After(followInterval):
		}
	}
}

// ComponentNames returns the names of all components that run when the fleet runs, sorted.
func (f *Fleet) ComponentNames() ([]string, error) {
	if _, err := f.Load(); err != nil {
		return nil, err
	}
	names := append(f.desiredComponents(), supervisorLog)
	slices.Sort(names)
	return names, nil
}

func (f *Fleet) findComponent(name string) (string, error) {
	all, err := f.ComponentNames()
	if err != nil {
		return "", err
	}
	var found []string
	for _, n := range all {
		if n == name {
			return n, nil
		}
		if programOf(n) == name {
			found = append(found, n)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("component %q not found: must be one of %s", name, strings.Join(all, ", "))
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("component name %q is ambiguous: must be one of %s", name, strings.Join(found, ", "))
	}
}
