package localfleet

import (
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// TestFleetsChooseDifferentPorts starts fleets at the same time. None listens at its ports yet.
func TestFleetsChooseDifferentPorts(t *testing.T) {
	const fleets = 30
	user, root := t.TempDir(), t.TempDir()
	var group sync.WaitGroup
	for i := range fleets {
		f, err := New(Config{Dir: filepath.Join(root, strconv.Itoa(i)), Executable: "/bin/true", UserDir: user})
		if err != nil {
			t.Fatal(err)
		}
		f.state = &State{Layout: LayoutVersion, ITS: []string{"its1"}, WDS: []string{"wds1"}}
		if err := f.state.apply(&UpOptions{WECs: new(20)}, 0); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if err := f.reservePorts(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	owners := map[int]string{}
	for i := range fleets {
		state, _, err := loadState(Layout{Dir: filepath.Join(root, strconv.Itoa(i))})
		if err != nil {
			t.Fatal(err)
		}
		for component, port := range state.Ports {
			owner := fmt.Sprintf("fleet %d: %s", i, component)
			if owners[port] != "" {
				t.Errorf("%s and %s have port %d", owners[port], owner, port)
			}
			owners[port] = owner
		}
	}
	for name, do := range damages {
		list := filepath.Join(user, "fleets.json")
		if err := do(list); err != nil {
			t.Fatal(err)
		}
		f, err := New(Config{Dir: filepath.Join(root, "0"), Executable: "/bin/true", UserDir: user})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Load(); err != nil {
			t.Fatal(err)
		}
		if err := f.reservePorts(t.Context()); err != nil {
			t.Errorf("%s list of fleets: %v", name, err)
		}
	}
}
