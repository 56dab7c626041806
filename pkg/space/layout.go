package space

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// LayoutVersion is the version of the files in a fleet's directory. It changes when an older
// program could not use a directory any more, or a newer one could not use an older directory.
const LayoutVersion = 1

// Layout names the paths in the directory of a fleet.
type Layout struct {
	// Dir is absolute.
	Dir string
}

// NewLayout returns the layout of dir, which need not exist.
func NewLayout(dir string) (Layout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Layout{}, fmt.Errorf("find directory %q: %w", dir, err)
	}
	return Layout{Dir: abs}, nil
}

// FleetFile says what the fleet consists of.
func (l Layout) FleetFile() string { return filepath.Join(l.Dir, "fleet.json") }

// ComponentsFile is where the supervisor keeps its components and their process ids.
func (l Layout) ComponentsFile() string { return filepath.Join(l.Dir, "components.json") }

// SupervisorFile names the supervisor's process and socket.
func (l Layout) SupervisorFile() string { return filepath.Join(l.Dir, "supervisor.json") }

// SupervisorLock is held by the supervisor as long as it lives.
func (l Layout) SupervisorLock() string { return filepath.Join(l.Dir, "supervisor.lock") }

// CommandLock is held by a command that changes the fleet.
func (l Layout) CommandLock() string { return filepath.Join(l.Dir, "command.lock") }

// Kubeconfig is the user's kubeconfig, with a context for each space.
func (l Layout) Kubeconfig() string { return filepath.Join(l.Dir, "kubeconfig") }

// Logs is the directory of all logs.
func (l Layout) Logs() string { return filepath.Join(l.Dir, "logs") }

// Log is the log of a component.
func (l Layout) Log(component string) string {
	return filepath.Join(l.Logs(), strings.ReplaceAll(component, "/", "-")+".log")
}

// EtcdPKI and EtcdData hold etcd's certificates and data.
func (l Layout) EtcdPKI() string { return filepath.Join(l.Dir, "etcd", "pki") }

// EtcdData is etcd's data directory.
func (l Layout) EtcdData() string { return filepath.Join(l.Dir, "etcd", "data") }

// Space is the directory of a space.
func (l Layout) Space(space string) string { return filepath.Join(l.Dir, "spaces", space) }

// PKI holds the certificates of a space.
func (l Layout) PKI(space string) string { return filepath.Join(l.Space(space), "pki") }

// ComponentKubeconfig is the kubeconfig with which a component reaches a space.
func (l Layout) ComponentKubeconfig(space, component string) string {
	return filepath.Join(l.Space(space), component+".kubeconfig")
}

// writeFile replaces a file at once or not at all. Only the user may read it.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(data); err != nil {
		tmp.Close()
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
