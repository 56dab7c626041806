package localfleet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

// TestDirectoryOfAnyName runs a fleet with all programs in a directory whose name a shell would
// split, with a umask that takes no rights, and starts it again after its files were damaged.
func TestDirectoryOfAnyName(t *testing.T) { //nolint:paralleltest // the umask and the environment are the process's
	parent := filepath.Join(t.TempDir(), "my fleet's")
	if err := os.Mkdir(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", parent)
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	f := testenv.Start(t, testenv.Options{WECs: 1, OCM: true, Controllers: true, Packages: true})
	if !strings.HasPrefix(f.Dir, parent) {
		t.Fatalf("the fleet is in %s", f.Dir)
	}
	f.Kubectl(t, "wds1", "create", "namespace", "kept")
	private := func() {
		t.Helper()
		err := filepath.WalkDir(f.Dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil // a temporary file that does not exist any more
		})
		if err != nil {
			t.Error(err)
		}
	}
	private()

	// What a power failure leaves: empty files.
	for _, name := range []string{"supervisor.json", "components.json", "kubeconfig"} {
		damage(t, f, name)
	}
	if out, err := f.Run("status"); err != nil {
		t.Errorf("status: %v %s", err, out)
	}
	if out, err := f.Up(); err != nil || !strings.Contains(out, "is running") {
		t.Errorf("up on the running fleet: %s %v", out, err)
	}
	f.Kubectl(t, "wds1", "get", "namespace", "kept")
	damage(t, f, "supervisor.json")
	if _, err := f.Run("down"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"fleet.json", "supervisor.json", "components.json", "kubeconfig", "etcd/pki/ca.crt", "etcd/pki/server.key",
		"spaces/its1/pki/ca.crt", "spaces/its1/pki/admin.key", "spaces/cluster1/bootstrap.kubeconfig", "spaces/cluster1/klusterlet.yaml",
		"spaces/wds1/transport-controller-its1.kubeconfig", "spaces/cluster1/status-agent.kubeconfig", "spaces/cluster1/addon-status/tls.key",
	} {
		damage(t, f, name)
	}
	out, err := f.Up()
	if err != nil {
		t.Fatal(err)
	}
	f.Kubectl(t, "wds1", "get", "namespace", "kept")
	if !strings.Contains(out, "Restored") {
		t.Errorf("up does not say that it restored the state: %s", out)
	}
	private()

	// A shell that runs the printed command uses the kubeconfig of the fleet.
	export := regexp.MustCompile(`(?m)^ *export KUBECONFIG=.*$`).FindString(out)
	got, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", export+`; printf %s "$KUBECONFIG"`).Output()
	if err != nil || string(got) != f.Kubeconfig() {
		t.Errorf("%q sets KUBECONFIG to %q: %v", export, got, err)
	}
}

// damage empties a file.
func damage(t *testing.T, f *testenv.Fleet, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.Dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
