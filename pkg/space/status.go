package space

import (
	"context"
	"errors"
	"time"
)

// Status is a fleet as it is now.
type Status struct {
	Dir        string            `json:"dir"`
	Kubeconfig string            `json:"kubeconfig"`
	Version    string            `json:"version"`
	Running    bool              `json:"running"`
	Components []ComponentStatus `json:"components"`
	WECs       []WECStatus       `json:"wecs"`
	Memory     Memory            `json:"memory"`
}

// ComponentStatus is a process of the fleet as it is now.
type ComponentStatus struct {
	Name     string    `json:"name"`
	Space    string    `json:"space,omitempty"`
	Program  string    `json:"program"`
	PID      int       `json:"pid,omitempty"`
	State    RunState  `json:"state"`
	Since    time.Time `json:"since"`
	Restarts int       `json:"restarts"`
	LastExit string    `json:"lastExit,omitempty"`
	Problem  string    `json:"problem,omitempty"`
	Memory   Memory    `json:"memory"`
	Address  string    `json:"address,omitempty"`
	Log      string    `json:"log"`
}

// SupervisorName is the name under which the supervisor itself stands among the components.
const SupervisorName = supervisorLog

// Status looks at the fleet. A fleet that is down has no components.
func (f *Fleet) Status(ctx context.Context) (*Status, error) {
	state, err := f.Load()
	if err != nil {
		return nil, err
	}
	st := &Status{Dir: f.layout.Dir, Kubeconfig: f.layout.Kubeconfig(), Version: state.Version}
	client, err := f.connect(ctx)
	if errors.Is(err, errDown) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := client.status(ctx)
	if err != nil {
		return nil, err
	}
	st.Running = true
	st.Version = client.info.Version
	st.Components = append(st.Components, ComponentStatus{
		Name: SupervisorName, Program: SupervisorName, PID: client.info.PID, State: StateReady,
		Memory: processMemory(client.info.PID), Log: f.layout.Log(supervisorLog),
	})
	for i := range all {
		s := &all[i]
		st.Components = append(st.Components, ComponentStatus{
			Name: s.Component.Name, Space: s.Component.Space(), Program: s.Component.Program(),
			PID: s.PID, State: s.State, Since: s.Since, Restarts: s.Restarts, LastExit: s.LastExit, Problem: s.LastProbe,
			Memory: processMemory(s.PID), Address: s.Component.Address, Log: f.layout.Log(s.Component.Name),
		})
	}
	for _, c := range st.Components {
		st.Memory.RSS += c.Memory.RSS
		st.Memory.PSS += c.Memory.PSS
	}
	st.WECs = f.wecStatus(ctx)
	return st, nil
}

// Ready says whether all components are ready and all WECs have joined.
func (s *Status) Ready() bool {
	for _, c := range s.Components {
		if c.State != StateReady {
			return false
		}
	}
	for _, w := range s.WECs {
		if !w.Pending && !w.Available {
			return false
		}
	}
	return s.Running
}

// WECStatus is a workload execution cluster as it is now.
type WECStatus struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Pending says that its approval was left to the user.
	Pending bool `json:"pending,omitempty"`
	// Accepted, Joined and Available are what OCM says of the ManagedCluster.
	Accepted  bool `json:"accepted"`
	Joined    bool `json:"joined"`
	Available bool `json:"available"`
	// Problem says why OCM could not be asked.
	Problem string `json:"problem,omitempty"`
}
