package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/space"
)

// Options say what fleet a test needs. The zero value is the smallest: its1 and wds1, API servers
// with their controller managers and nothing else.
type Options struct {
	// WECs is the number of workload execution clusters.
	WECs int
	// OCM runs OCM in its1 and joins the WECs.
	OCM bool
	// Controllers runs Starling's own controllers; it needs OCM.
	Controllers bool
	// Packages runs a package-server in each WDS.
	Packages bool
	// Nodes gives each WEC a fake node and a scheduler.
	Nodes bool
	// Spaces names the ITSes and WDSes where they shall not be its1 and wds1.
	Spaces []string
}

// Fleet is a fleet that runs for tests. It is safe for concurrent use.
type Fleet struct {
	// Dir is the directory of the fleet.
	Dir string
	bin string
	// alive is held open as long as the fleet shall live; its supervisor reads the other end.
	alive, watched *os.File
}

// upTimeout is far more than any fleet needs on any machine that can run it.
const upTimeout = 5 * time.Minute

// Start starts a fleet that ends with the test.
func Start(t testing.TB, o Options) *Fleet {
	t.Helper()
	f, err := start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.dumpIfFailed(t)
		if err := f.end(); err != nil {
			t.Errorf("end fleet: %v", err)
		}
	})
	return f
}

// shared is the one fleet of a test binary.
var shared struct { //nolint:gochecknoglobals // a test binary has one TestMain
	sync.Mutex
	options Options
	fleet   *Fleet
	err     error
}

// Main runs the tests of a package, which share the fleet that Shared returns, and exits. The fleet
// comes up with the first test that asks for it.
func Main(m *testing.M, o Options) {
	shared.options = o
	code := m.Run()
	if shared.fleet != nil {
		if err := shared.fleet.end(); err != nil {
			fmt.Fprintln(os.Stderr, "end the shared fleet:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Shared returns the fleet that the tests of a package share. When a test fails, the ends of the
// fleet's logs are shown.
func Shared(t testing.TB) *Fleet {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.fleet == nil && shared.err == nil {
		shared.fleet, shared.err = start(shared.options)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	f := shared.fleet
	t.Cleanup(func() { f.dumpIfFailed(t) })
	return f
}

func start(o Options) (*Fleet, error) {
	bin, err := Binary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "starling-test-")
	if err != nil {
		return nil, err
	}
	f := &Fleet{Dir: dir, bin: bin}
	// The kernel closes the writing end when this process ends, however it does: then the fleet ends.
	if f.watched, f.alive, err = os.Pipe(); err != nil {
		return nil, err
	}
	args := []string{
		"--ephemeral", "--wecs", strconv.Itoa(o.WECs),
		fmt.Sprintf("--no-ocm=%t", !o.OCM),
		fmt.Sprintf("--no-controllers=%t", !o.Controllers),
		fmt.Sprintf("--no-packages=%t", !o.Packages),
		fmt.Sprintf("--nodes=%t", o.Nodes),
	}
	if len(o.Spaces) > 0 {
		args = append(args, "--spaces", strings.Join(o.Spaces, ","))
	}
	if _, err := f.Up(args...); err != nil {
		f.close()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, nil
}

// Up runs `starling up` on the fleet and returns what it printed. Whatever it starts ends with this
// process.
func (f *Fleet) Up(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.Command(f.bin, append([]string{"up", "--dir", f.Dir, "--die-with-fd", "3"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.ExtraFiles = []*os.File{f.watched}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", err
	}
	timeout := time.AfterFunc(upTimeout, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer timeout.Stop()
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("starling up: %w\n%s", err, out.String())
	}
	return out.String(), nil
}

func (f *Fleet) close() {
	f.alive.Close()
	f.watched.Close()
}

// Binary returns the path of the starling binary: $STARLING_BIN, or that in $STARLING_BIN_DIR, or
// that in bin/ of the module.
func Binary() (string, error) {
	path := os.Getenv("STARLING_BIN")
	if dir := os.Getenv("STARLING_BIN_DIR"); path == "" && dir != "" {
		path = filepath.Join(dir, "starling")
	}
	if path == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", err
		}
		path = filepath.Join(root, "bin", "starling")
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing: run `make build` first", path)
	}
	return filepath.Abs(path)
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the module: no go.mod in any directory above")
		}
		dir = parent
	}
}

// end ends the fleet and removes its directory.
func (f *Fleet) end() error {
	defer f.close()
	_, err := f.Run("down", "--delete")
	return err
}

// Run runs a starling command on the fleet and returns what it printed.
func (f *Fleet) Run(args ...string) (string, error) {
	cmd := exec.Command(f.bin, args...)
	cmd.Env = append(os.Environ(), "STARLING_DIR="+f.Dir)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("starling %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// Kubectl runs kubectl on a space and returns what it printed.
func (f *Fleet) Kubectl(t testing.TB, space string, args ...string) string {
	t.Helper()
	out, err := f.Run(append([]string{"kubectl", "--", "--context", space}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Kubeconfig is the path of the user's kubeconfig, with a context for each space.
func (f *Fleet) Kubeconfig() string { return filepath.Join(f.Dir, "kubeconfig") }

// Config returns a client configuration of the user, an administrator, for a space.
func (f *Fleet) Config(t testing.TB, space string) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: f.Kubeconfig()},
		&clientcmd.ConfigOverrides{CurrentContext: space},
	).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst = 500, 1000
	cfg.UserAgent = "starling-test"
	return cfg
}

// Status returns the fleet as it is now.
func (f *Fleet) Status(t testing.TB) *space.Status {
	t.Helper()
	st, err := f.status()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (f *Fleet) status() (*space.Status, error) {
	var st space.Status
	// A fleet that is not ready is an answer too: the exit code says so, and the output is complete.
	out, err := f.Run("status", "-o", "json")
	if jsonErr := json.Unmarshal([]byte(out), &st); jsonErr != nil {
		return nil, errors.Join(err, jsonErr)
	}
	return &st, nil
}

// Components returns the processes of the fleet but its supervisor.
func (f *Fleet) Components(t testing.TB) []space.ComponentStatus {
	t.Helper()
	var all []space.ComponentStatus
	for _, c := range f.Status(t).Components {
		if c.Name != space.SupervisorName {
			all = append(all, c)
		}
	}
	return all
}

// Component returns the process of that name, such as "wds1/binding-controller".
func (f *Fleet) Component(t testing.TB, name string) space.ComponentStatus {
	t.Helper()
	for _, c := range f.Status(t).Components {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the fleet has no component %s", name)
	return space.ComponentStatus{}
}

// Kill sends SIGKILL to a component; the supervisor starts it again.
func (f *Fleet) Kill(t testing.TB, name string) {
	t.Helper()
	c := f.Component(t, name)
	if c.PID == 0 {
		t.Fatalf("%s has no process: %s", name, c.State)
	}
	if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %s: %v", name, err)
	}
}

// KillAll sends SIGKILL to all components at once and returns what they were: some end by themselves soon after others are gone.
func (f *Fleet) KillAll(t testing.TB) []space.ComponentStatus {
	t.Helper()
	all := f.Components(t)
	for _, c := range all {
		if c.PID == 0 {
			t.Fatalf("%s has no process: %s", c.Name, c.State)
		}
	}
	for _, c := range all {
		if err := syscall.Kill(c.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("kill %s: %v", c.Name, err)
		}
	}
	return all
}

// Pause makes a component hang, as if it could not be reached, until resume or the end of the test.
func (f *Fleet) Pause(t testing.TB, name string) (resume func()) {
	t.Helper()
	pid := f.Component(t, name).PID
	if pid == 0 {
		t.Fatalf("%s has no process", name)
	}
	signal := func(s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Errorf("signal %s: %v", name, err)
		}
	}
	signal(syscall.SIGSTOP)
	resume = sync.OnceFunc(func() { signal(syscall.SIGCONT) })
	t.Cleanup(resume)
	return resume
}

// Restart kills a component and waits until it is ready again.
func (f *Fleet) Restart(t testing.TB, name string) {
	t.Helper()
	before := f.Component(t, name).PID
	f.Kill(t, name)
	Eventually(t, time.Minute, func() (bool, string) {
		c := f.Component(t, name)
		return c.PID != 0 && c.PID != before && c.State == space.StateReady, fmt.Sprintf("%s is %s", name, c.State)
	})
}

// dumpIfFailed shows the ends of the logs. What is logged at our level holds no Secrets.
func (f *Fleet) dumpIfFailed(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	const lines = 15
	logs, err := os.ReadDir(filepath.Join(f.Dir, "logs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Log(err)
	}
	for _, l := range logs {
		data, err := os.ReadFile(filepath.Join(f.Dir, "logs", l.Name()))
		if err != nil {
			continue
		}
		all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		t.Logf("end of %s:\n%s", l.Name(), strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
}

// Abandon does to the fleet what the death of this process would do: it must end by itself.
func (f *Fleet) Abandon() { f.alive.Close() }
