package localfleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInterruptedRemovalIsFinished fails in the middle of the removal of a WEC. The next command
// deletes the rest: a new WEC of that name does not get the data of the old one.
func TestInterruptedRemovalIsFinished(t *testing.T) {
	cases := map[string]func(f *Fleet) error{
		"remove it again": func(f *Fleet) error { return f.RemoveWEC(t.Context(), "edge") },
		"add another one": func(f *Fleet) error {
			err := f.AddWEC(t.Context(), &WEC{Name: "other"})
			if err == nil || !strings.Contains(err.Error(), "start component") { // its API server is not a real one
				return fmt.Errorf("want an error of the API server, got %w", err)
			}
			return nil
		},
		"up": func(f *Fleet) error {
			if err := f.prepare(&UpOptions{}); err != nil {
				return err
			}
			if err := f.connect(t.Context()); err != nil {
				return err
			}
			if unchanged, err := f.unchanged(t.Context()); err != nil || unchanged {
				return fmt.Errorf("up would do nothing: %t, %w", unchanged, err)
			}
			return f.finishRemovals(t.Context())
		},
	}
	for name, next := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "fleet")
			f := testFleet(t, dir)
			f.state = &State{Layout: LayoutVersion, WECs: []WEC{{Name: "edge"}}}
			if err := f.ensureFiles(t.Context()); err != nil {
				t.Fatal(err)
			}
			supervise(t, f)
			cleared := filepath.Join(t.TempDir(), "cleared")
			program := filepath.Join(t.TempDir(), "starling")
			install := func(script string) {
				if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			command := func() *Fleet {
				f := testFleet(t, dir)
				f.cfg.Executable = program
				return f
			}

			install("exit 1") // etcd does not respond
			if err := command().RemoveWEC(t.Context(), "edge"); err == nil {
				t.Fatal("the removal succeeded")
			}
			install(`[ "$1" = etcd-clear ] && echo "$@" >>` + cleared + ` || exit 1`)
			if err := next(command()); err != nil {
				t.Error(err)
			}
			if got := readFile(t, cleared); !strings.Contains(got, "--prefix /edge/") {
				t.Errorf("cleared in etcd: %q", got)
			}
			if _, err := os.Stat(f.layout.Space("edge")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its files are left: %v", err)
			}
			state, _, err := loadState(f.layout)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(state.Spaces(), "edge") || len(state.Removing) > 0 {
				t.Errorf("state: %+v", state)
			}
		})
	}
}
