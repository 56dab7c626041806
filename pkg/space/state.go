package space

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
)

// State says what a fleet consists of. It is what `down` leaves for the next `up`.
type State struct {
	// Layout is the LayoutVersion of the program that made the directory.
	Layout int `json:"layout"`
	// Version is the version of that program, for messages.
	Version string `json:"version"`
	// ITS and WDS name the spaces. The first ITS is the one that WECs join.
	ITS []string `json:"its,omitempty"`
	WDS []string `json:"wds,omitempty"`
	// WECs are the workload execution clusters.
	WECs []WEC `json:"wecs,omitempty"`
	// OCM says that OCM runs in the ITS and the WECs.
	OCM bool `json:"ocm"`
	// Controllers says that Starling's own controllers run.
	Controllers bool `json:"controllers"`
	// NoPackages says that no package-server runs.
	NoPackages bool `json:"noPackages,omitempty"`
	// Nodes says that each WEC has a fake node and a scheduler.
	Nodes bool `json:"nodes"`
	// Ephemeral says that the data need not survive a crash of the machine.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Large says that the processes may take the memory that they want: the fleet is to hold many objects.
	Large bool `json:"large,omitempty"`
	// Ports holds the port of each listener, so that addresses stay the same.
	Ports map[string]int `json:"ports,omitempty"`
}

// WEC is a workload execution cluster of a fleet.
type WEC struct {
	Name string `json:"name"`
	// Labels go onto the ManagedCluster.
	Labels map[string]string `json:"labels,omitempty"`
	// Pending leaves the approval of the CSR and of the cluster to the user.
	Pending bool `json:"pending,omitempty"`
}

// Spaces returns the names of all spaces: ITSes, WDSes, WECs.
func (s *State) Spaces() []string {
	spaces := slices.Concat(s.ITS, s.WDS)
	for _, w := range s.WECs {
		spaces = append(spaces, w.Name)
	}
	return spaces
}

// WEC returns the WEC of that name, or nil.
func (s *State) WEC(name string) *WEC {
	for i := range s.WECs {
		if s.WECs[i].Name == name {
			return &s.WECs[i]
		}
	}
	return nil
}

// errNoFleet says that the directory holds no fleet.
var errNoFleet = errors.New("no fleet")

// loadState reads the state of a fleet. It fails with errNoFleet where there is none, and with a
// clear message where the directory is of another layout.
func loadState(l Layout) (*State, error) {
	data, err := os.ReadFile(l.FleetFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", errNoFleet, l.Dir)
	}
	if err != nil {
		return nil, err
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read %s: %w", l.FleetFile(), err)
	}
	if s.Layout != LayoutVersion {
		return nil, fmt.Errorf("%s was made by Starling %s (layout %d), this program needs layout %d: "+
			"use that version, or delete the fleet with `starling down --delete --dir %s`",
			l.Dir, s.Version, s.Layout, LayoutVersion, l.Dir)
	}
	return &s, nil
}

// save writes the state.
func (s *State) save(l Layout) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(l.FleetFile(), append(data, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", l.FleetFile(), err)
	}
	return nil
}

// clone returns a deep copy.
func (s *State) clone() *State {
	c := *s
	c.ITS, c.WDS, c.WECs = slices.Clone(s.ITS), slices.Clone(s.WDS), slices.Clone(s.WECs)
	for i := range c.WECs {
		c.WECs[i].Labels = maps.Clone(c.WECs[i].Labels)
	}
	c.Ports = maps.Clone(s.Ports)
	return &c
}
