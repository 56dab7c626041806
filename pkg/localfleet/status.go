package localfleet

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Status is the current status of a fleet.
type Status struct {
	Dir        string            `json:"dir"`
	Kubeconfig string            `json:"kubeconfig"`
	Version    string            `json:"version"`
	Running    bool              `json:"running"`
	Components []ComponentStatus `json:"components"`
	WECs       []WECStatus       `json:"wecs"`
	Memory     Memory            `json:"memory"`
}

// ComponentStatus is the current status of a component.
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

// SupervisorName is the name of the supervisor in a list of components.
const SupervisorName = supervisorLog

// Status returns the status of the fleet. A fleet that does not run has no components.
func (f *Fleet) Status(ctx context.Context) (*Status, error) {
	state, err := f.Load()
	if err != nil {
		return nil, err
	}
	st := &Status{Dir: f.layout.Dir, Kubeconfig: f.layout.Kubeconfig(), Version: state.Version}
	if err := f.connect(ctx); errors.Is(err, errDown) {
		return st, nil
	} else if err != nil {
		return nil, err
	}
	all, err := f.supervisor.status(ctx)
	if err != nil {
		return nil, err
	}
	st.Running = true
	st.Version = f.supervisor.info.Version
	st.Components = append(st.Components, ComponentStatus{
		Name: SupervisorName, Program: SupervisorName, PID: f.supervisor.info.PID, State: StateReady,
		Memory: processMemory(f.supervisor.info.PID), Log: f.layout.Log(supervisorLog),
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
		st.Memory.add(c.Memory)
	}
	st.WECs = f.wecStatus(ctx)
	return st, nil
}

// Ready reports whether all components are ready and all WECs, except pending ones, are available.
func (s *Status) Ready() bool {
	return s.Running &&
		!slices.ContainsFunc(s.Components, func(c ComponentStatus) bool { return c.State != StateReady }) &&
		!slices.ContainsFunc(s.WECs, func(w WECStatus) bool { return !w.Pending && !w.Available })
}

// WECStatus is the current status of a workload execution cluster.
type WECStatus struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Pending is true if the user approves the cluster.
	Pending bool `json:"pending,omitempty"`
	// Accepted, Joined and Available are the status of the ManagedCluster.
	Accepted  bool `json:"accepted"`
	Joined    bool `json:"joined"`
	Available bool `json:"available"`
	// Problem is why the status is unknown.
	Problem string `json:"problem,omitempty"`
}
