package localfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// portsTimeout is much longer than any command needs to choose its ports.
const portsTimeout = 10 * time.Second

// reservePorts chooses the ports of the components that have none, and saves the state. Fleets of
// one user do so one after the other, and none chooses a port that another one has in its state:
// also if the other one has not listened there yet, or does not run now.
func (f *Fleet) reservePorts(ctx context.Context) error {
	others, unlock, err := f.lockFleets(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := f.state.choosePorts(f.desiredComponents(), portsOf(others)); err != nil {
		return err
	}
	return f.state.save(f.layout)
}

// lockFleets adds this fleet to the list of the user's fleets, and returns the directories of the
// others. The list is locked until unlock is called.
func (f *Fleet) lockFleets(ctx context.Context) (others []string, unlock func(), err error) {
	if f.cfg.UserDir == "" {
		return nil, func() {}, nil
	}
	path := filepath.Join(f.cfg.UserDir, "fleets.lock")
	lock, err := lockWithin(ctx, path, portsTimeout)
	if errors.Is(err, errLocked) {
		return nil, nil, fmt.Errorf("another starling command has locked %q for %s: end it and run this command again", path, portsTimeout)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("lock %q: %w", path, err)
	}
	list := filepath.Join(f.cfg.UserDir, "fleets.json")
	others = slices.DeleteFunc(loadFleets(list), func(dir string) bool { return dir == f.layout.Dir || !hasFleet(Layout{Dir: dir}) })
	data, err := json.Marshal(append(slices.Clip(others), f.layout.Dir))
	if err == nil {
		err = writeFile(list, data)
	}
	if err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("add the fleet to %q: %w", list, err)
	}
	return others, func() { lock.Close() }, nil
}

// loadFleets reads the list of the user's fleets. A list that cannot be read is empty: each fleet
// adds itself again when it starts.
func loadFleets(path string) []string {
	var dirs []string
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &dirs) != nil {
		return nil
	}
	return dirs
}

// portsOf returns the ports in the states of fleets. A state that cannot be read has none.
func portsOf(dirs []string) map[int]bool {
	ports := map[int]bool{}
	for _, dir := range dirs {
		state, _, err := loadState(Layout{Dir: dir})
		if err != nil {
			continue
		}
		for _, p := range state.Ports {
			ports[p] = true
		}
	}
	return ports
}
