package localfleet

import (
	"path/filepath"
	"strings"
)

// LayoutVersion is the version of the files in a fleet's directory. It is increased when an older
// program cannot use a new directory, or a newer program cannot use an old one.
const LayoutVersion = 1

// Layout has the paths in the directory of a fleet.
type Layout struct {
	// Dir is absolute.
	Dir string
}

// FleetFile has the State of the fleet.
func (l Layout) FleetFile() string { return filepath.Join(l.Dir, "fleet.json") }

// FleetCopy has a copy of the State, for the case that FleetFile cannot be read.
func (l Layout) FleetCopy() string { return filepath.Join(l.Dir, "fleet-copy.json") }

// ComponentsFile has the components of the supervisor and their process IDs.
func (l Layout) ComponentsFile() string { return filepath.Join(l.Dir, "components.json") }

// SupervisorFile has the process ID and the socket of the supervisor.
func (l Layout) SupervisorFile() string { return filepath.Join(l.Dir, "supervisor.json") }

// Socket is where the supervisor serves its API.
func (l Layout) Socket() string { return filepath.Join(l.Dir, "supervisor.sock") }

// SupervisorLock is locked while the supervisor runs.
func (l Layout) SupervisorLock() string { return filepath.Join(l.Dir, "supervisor.lock") }

// CommandLock is locked while a command changes the fleet.
func (l Layout) CommandLock() string { return filepath.Join(l.Dir, "command.lock") }

// Kubeconfig is the user's kubeconfig, with a context for each space.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Dir, "kubeconfig") }

// Logs is the directory of all logs.
func (l Layout) Logs() string { return filepath.Join(l.Dir, "logs") }

// Log is the log file of a component.
func (l Layout) Log(component string) string {
	return filepath.Join(l.Logs(), strings.ReplaceAll(component, "/", "-")+".log")
}

// Audit is the directory of the audit logs of the API servers, one for each ITS and WDS, and their
// policy.
func (l Layout) Audit() string { return filepath.Join(l.Dir, "audit") }

// AuditPolicy is the policy of the audit logs.
func (l Layout) AuditPolicy() string { return filepath.Join(l.Audit(), "policy.yaml") }

// AuditLog is the audit log of a space. Older logs have a time in their name.
func (l Layout) AuditLog(space string) string { return filepath.Join(l.Audit(), space+".log") }

// EtcdDir is the directory of etcd.
func (l Layout) EtcdDir() string { return filepath.Join(l.Dir, "etcd") }

// EtcdData is the directory of etcd's data.
func (l Layout) EtcdData() string { return filepath.Join(l.EtcdDir(), "data") }

// Spaces is the directory of the directories of all spaces.
func (l Layout) Spaces() string { return filepath.Join(l.Dir, "spaces") }

// Space is the directory of a space.
func (l Layout) Space(space string) string { return filepath.Join(l.Spaces(), space) }

// PKI is the directory of a space's certificates, or of etcd's if the space is "".
func (l Layout) PKI(space string) string {
	if space == "" {
		return filepath.Join(l.EtcdDir(), "pki")
	}
	return filepath.Join(l.Space(space), "pki")
}

// ComponentKubeconfig is the kubeconfig of that name in the directory of a space, which a component
// uses.
func (l Layout) ComponentKubeconfig(space, component string) string {
	return filepath.Join(l.Space(space), component+".kubeconfig")
}
