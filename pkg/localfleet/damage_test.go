package localfleet

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// damages are what a power failure, a full disk or a user do to a file.
var damages = map[string]func(file string) error{
	"missing":   os.Remove,
	"empty":     func(file string) error { return os.WriteFile(file, nil, 0o600) },
	"garbled":   func(file string) error { return os.WriteFile(file, []byte("\x00\x01{"), 0o600) },
	"truncated": halve,
}

func halve(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data[:len(data)/2], 0o600)
}

// newTestFleet returns a fleet in dir with the files of a fleet that does not run.
func newTestFleet(t *testing.T, dir string) *Fleet {
	t.Helper()
	f := testFleet(t, dir)
	f.state = &State{
		Layout: LayoutVersion, ITS: []string{"its1"}, WDS: []string{"wds1"}, WECs: []WEC{{Name: "cluster1", Pending: true}},
		OCM: true, Controllers: true,
	}
	if err := f.ensureFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// testFleet returns the fleet in dir, as a command has it. It is as patient as a command: a busy
// machine takes its time.
func testFleet(t *testing.T, dir string) *Fleet {
	t.Helper()
	f, err := New(Config{Dir: dir, Executable: "/bin/true", Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// filesOf returns the files in dir and below, relative to it.
func filesOf(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestDamagedFiles damages each file of a fleet. The next start has the same state and the same
// authorities, or reports what is lost; `status`, `down` and `down --delete` work in each case.
func TestDamagedFiles(t *testing.T) {
	template := newTestFleet(t, filepath.Join(t.TempDir(), "fleet")).layout.Dir
	for _, file := range []string{"supervisor.json", "components.json", "supervisor.lock", "command.lock"} {
		if err := os.WriteFile(filepath.Join(template, file), []byte(`{"pid":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range filesOf(t, template) {
		if strings.HasPrefix(file, "spaces/") && !strings.HasPrefix(file, "spaces/its1/") {
			continue // the same in each space
		}
		for damage, do := range damages {
			t.Run(damage+" "+file, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "fleet")
				if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
					t.Fatal(err)
				}
				before := testFleet(t, dir)
				if _, err := before.Load(); err != nil {
					t.Fatal(err)
				}
				key, signed := publicKey(t, dir), readFile(t, filepath.Join(dir, "spaces/its1/pki/admin.crt"))
				if err := do(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}

				if st, err := testFleet(t, dir).Status(t.Context()); err != nil || st.Running {
					t.Errorf("status: %+v, %v", st, err)
				}
				if err := testFleet(t, dir).Down(t.Context(), false); err != nil {
					t.Errorf("down: %v", err)
				}
				up := testFleet(t, dir)
				err := up.prepare(&UpOptions{})
				if err == nil {
					err = up.ensureFiles(t.Context())
				}
				if isAuthorityKey(file) {
					if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "starling down --delete") {
						t.Errorf("up: want an error that names the file and what to do, got %v", err)
					}
				} else {
					if err != nil {
						t.Fatalf("up: %v", err)
					}
					if diff := cmp.Diff(before.state, up.state); diff != "" {
						t.Errorf("state (-before +after):\n%s", diff)
					}
					if publicKey(t, dir) != key {
						t.Error("the authority of its1 has another key: what it signed is invalid now")
					}
					if strings.HasSuffix(file, "ca.crt") && readFile(t, filepath.Join(dir, "spaces/its1/pki/admin.crt")) != signed {
						t.Error("a valid certificate was signed again")
					}
					if diff := cmp.Diff(filesWithoutLocks(t, template), filesWithoutLocks(t, dir)); diff != "" {
						t.Errorf("files (-before +after):\n%s", diff)
					}
				}
				if err := testFleet(t, dir).Down(t.Context(), true); err != nil {
					t.Errorf("down --delete: %v", err)
				}
				if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("down --delete left the directory: %v", err)
				}
			})
		}
	}
}

// isAuthorityKey reports whether a file has what cannot be created again: other files depend on it.
func isAuthorityKey(file string) bool {
	for _, authority := range []string{"/ca.key", "/front-proxy-ca.key", "/service-account.key"} {
		if strings.HasSuffix(file, authority) {
			return true
		}
	}
	return false
}

// filesWithoutLocks returns the files that a fleet that does not run has.
func filesWithoutLocks(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	for _, file := range filesOf(t, dir) {
		switch file {
		case "supervisor.json", "components.json", "supervisor.lock", "command.lock":
		default:
			files = append(files, file)
		}
	}
	return files
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// publicKey returns the public key of the authority of its1.
func publicKey(t *testing.T, dir string) string {
	t.Helper()
	pair, err := pkiDir{dir: filepath.Join(dir, "spaces", "its1", "pki")}.load("ca")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(pair.Leaf.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(der)
}

// TestStateAndItsCopyAreLost checks that a new fleet never replaces one whose state is lost.
func TestStateAndItsCopyAreLost(t *testing.T) {
	for name, do := range damages {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "fleet")
			newTestFleet(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "supervisor.lock"), nil, 0o600); err != nil { // it has run
				t.Fatal(err)
			}
			for _, file := range []string{"fleet.json", "fleet-copy.json"} {
				if err := do(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
			}
			_, statusErr := testFleet(t, dir).Status(t.Context())
			for command, err := range map[string]error{"status": statusErr, "up": testFleet(t, dir).prepare(&UpOptions{})} {
				if err == nil || errors.Is(err, errNoFleet) || !strings.Contains(err.Error(), "starling down --delete --dir "+dir) {
					t.Errorf("%s: want an error that says what to do, got %v", command, err)
				}
			}
			for _, del := range []bool{false, true} {
				if err := testFleet(t, dir).Down(t.Context(), del); err != nil {
					t.Errorf("down, with deletion %t: %v", del, err)
				}
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("down --delete left the directory: %v", err)
			}
		})
	}
}

// TestDeleteKeepsWhatIsNotOfTheFleet deletes fleets from directories with other files.
func TestDeleteKeepsWhatIsNotOfTheFleet(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := testFleet(t, dir).Up(t.Context(), &UpOptions{}); err == nil || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("a new fleet in a directory with files: %v", err)
	}
	if err := testFleet(t, dir).Down(t.Context(), true); err == nil {
		t.Error("down --delete in a directory without a fleet succeeded")
	}
	newTestFleet(t, dir)                                                                    // as an earlier version did
	if err := os.WriteFile(filepath.Join(dir, ".fleet.json.123"), nil, 0o600); err != nil { // of an interrupted write
		t.Fatal(err)
	}
	if err := testFleet(t, dir).Down(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"thesis.tex"}, filesOf(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	target, link := filepath.Join(t.TempDir(), "target"), filepath.Join(t.TempDir(), "link")
	newTestFleet(t, target)
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := testFleet(t, link).Down(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(link); err != nil || len(left) > 0 {
		t.Errorf("the link of the user has %v: %v", left, err)
	}
}

// TestInterruptedDeletionCanBeRepeated deletes the files of a fleet one by one, as an interrupted
// command does.
func TestInterruptedDeletionCanBeRepeated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	f := newTestFleet(t, dir)
	if err := os.WriteFile(f.layout.SupervisorLock(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range f.layout.entries() {
		if !hasFleet(f.layout) && name != filepath.Base(f.layout.CommandLock()) {
			t.Errorf("%s would be left in a directory that no command deletes", name)
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestShellQuote(t *testing.T) {
	for word, want := range map[string]string{
		"/home/me/.starling": "/home/me/.starling",
		"/home/my fleet":     `'/home/my fleet'`,
		"/it's":              `'/it'\''s'`,
		"$(rm x)":            `'$(rm x)'`,
		"":                   `''`,
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q: want %s, got %s", word, want, got)
		}
	}
}
