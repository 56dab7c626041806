package localfleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/starlinghq/starling/pkg/install/ocm"
)

// State is what a fleet consists of. It persists from `down` to the next `up`.
type State struct {
	// Layout is the LayoutVersion of the program that created the directory.
	Layout int `json:"layout"`
	// Version is the version of that program, for messages.
	Version string `json:"version"`
	// ITS and WDS are the names of these spaces. WECs join the first ITS.
	ITS []string `json:"its,omitempty"`
	WDS []string `json:"wds,omitempty"`
	// WECs are the workload execution clusters.
	WECs []WEC `json:"wecs,omitempty"`
	// Removing are the names of WECs whose processes and data are being deleted.
	Removing []string `json:"removing,omitempty"`
	// OCM is true if OCM runs in the ITS and the WECs.
	OCM bool `json:"ocm"`
	// Controllers is true if Starling's controllers run.
	Controllers bool `json:"controllers"`
	// NoPackages is true if no package-server runs.
	NoPackages bool `json:"noPackages,omitempty"`
	// Nodes is true if each WEC has a fake node and a scheduler.
	Nodes bool `json:"nodes"`
	// Ephemeral is true if the data may be lost when the machine crashes.
	Ephemeral bool `json:"ephemeral,omitempty"`
	// Large is true if the memory of the processes is not limited, for many objects.
	Large bool `json:"large,omitempty"`
	// Audit is true if the API servers write audit logs of what Starling's identities do.
	Audit bool `json:"audit,omitempty"`
	// CallServers is true if the WDSes call the webhooks and API servers that users register.
	CallServers bool `json:"callServers,omitempty"`
	// Ports has the port of each component, so that addresses do not change.
	Ports map[string]int `json:"ports,omitempty"`
}

// WEC is a workload execution cluster of a fleet.
type WEC struct {
	Name string `json:"name"`
	// Labels are the initial labels of the ManagedCluster.
	Labels map[string]string `json:"labels,omitempty"`
	// Pending is true if the user approves the cluster and its CertificateSigningRequest.
	Pending bool `json:"pending,omitempty"`
	// WorkRights are the rights of OCM's agent in the cluster. Empty means ocm.WorkRightsAll.
	WorkRights ocm.WorkRights `json:"workRights,omitempty"`
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

// errNoFleet means that the directory has no fleet.
var errNoFleet = errors.New("no fleet")

// hasFleet reports whether a fleet was created in the directory, also if its state is lost.
func hasFleet(l Layout) bool {
	for _, file := range []string{l.FleetFile(), l.FleetCopy(), l.SupervisorLock()} {
		if _, err := os.Lstat(file); err == nil {
			return true
		}
	}
	return false
}

// loadState reads the state of a fleet, from its copy if FleetFile cannot be read: damage is the
// reason then. It returns errNoFleet if there is no fleet, and another error if the state is lost
// or the directory has another LayoutVersion.
func loadState(l Layout) (s *State, damage, err error) {
	if !hasFleet(l) {
		return nil, nil, fmt.Errorf("%w found in %q", errNoFleet, l.Dir)
	}
	s, damage = readState(l.FleetFile())
	if damage != nil {
		if s, err = readState(l.FleetCopy()); err != nil {
			return nil, nil, fmt.Errorf("%w\nIts copy is lost too: %w\nSo it is unknown what the fleet in %q consists of. "+
				"Restore one of the two files, or delete the fleet with: starling down --delete --dir %s", damage, err, l.Dir, shellQuote(l.Dir))
		}
	}
	if s.Layout != LayoutVersion {
		return nil, nil, fmt.Errorf("the fleet in %q was created by Starling %s with layout %d, this program requires layout %d. "+
			"Use that version, or delete the fleet with: starling down --delete --dir %s",
			l.Dir, s.Version, s.Layout, LayoutVersion, shellQuote(l.Dir))
	}
	return s, damage, nil
}

// readState reads a state. A file without a layout is an error: a part of it is lost.
func readState(path string) (*State, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	if s.Layout == 0 {
		return nil, fmt.Errorf("read %q: it has no layout", path)
	}
	return &s, nil
}

// save writes the state to the directory of the fleet, and then its copy.
func (s *State) save(l Layout) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []string{l.FleetFile(), l.FleetCopy()} {
		if err := writeFile(file, append(data, '\n')); err != nil {
			return fmt.Errorf("write %q: %w", file, err)
		}
	}
	return nil
}
