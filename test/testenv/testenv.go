package testenv

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
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

	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/rights"
)

// Options describe the fleet that a test needs. The zero value is the smallest one: its1 and wds1,
// with only API servers and their controller managers.
type Options struct {
	// WECs is the number of workload execution clusters.
	WECs int
	// OCM runs OCM in its1 and joins the WECs.
	OCM bool
	// Controllers runs Starling's controllers. It requires OCM.
	Controllers bool
	// Packages runs a package-server in each WDS.
	Packages bool
	// Nodes gives each WEC a fake node and a scheduler.
	Nodes bool
	// CallServers has the WDSes call the webhooks and API servers that tests register, as a WDS
	// does that is an ordinary cluster.
	CallServers bool
	// Spaces are the names of the ITSes and WDSes. The default is its1 and wds1.
	Spaces []string
	// Parallel is how many tests run at the same time, of those that may; 0 is one for each
	// processor. Tests that mostly wait may be more. The flag -parallel takes precedence.
	Parallel int
}

// Fleet is a fleet that runs for tests. It is safe for concurrent use.
type Fleet struct {
	// Dir is the directory of the fleet.
	Dir string
	bin string
	// alive is open while the fleet should run. Its supervisor reads the other end.
	alive, watched *os.File
}

// upTimeout is much longer than any fleet needs to start on any machine that can run it.
const upTimeout = 5 * time.Minute

// Start starts a fleet. It stops at the end of the test.
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

// Main runs the tests of a package, which share the fleet that Shared returns, and exits. The first
// call of Shared starts the fleet.
func Main(m *testing.M, o Options) {
	shared.options = o
	if o.Parallel > 0 {
		if err := flag.Set("test.parallel", strconv.Itoa(o.Parallel)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := m.Run()
	fleets := pooled.fleets
	if shared.fleet != nil {
		fleets = append(fleets, shared.fleet)
	}
	for _, f := range fleets {
		if err := f.end(); err != nil {
			fmt.Fprintln(os.Stderr, "end a shared fleet:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// Shared returns the fleet that the tests of a package share. If a test fails, it prints the ends
// of the fleet's logs.
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
	// The kernel closes the writing end when this process ends, also if it is killed. Then the
	// fleet stops.
	if f.watched, f.alive, err = os.Pipe(); err != nil {
		return nil, err
	}
	args := []string{
		"--ephemeral", "--wecs", strconv.Itoa(o.WECs),
		fmt.Sprintf("--no-ocm=%t", !o.OCM),
		fmt.Sprintf("--no-controllers=%t", !o.Controllers),
		fmt.Sprintf("--no-packages=%t", !o.Packages),
		fmt.Sprintf("--nodes=%t", o.Nodes),
		fmt.Sprintf("--call-servers=%t", o.CallServers),
	}
	if auditDir() != "" {
		args = append(args, "--audit")
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

// Up runs `starling up` for the fleet and returns its output. What it starts stops when this
// process ends.
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
		return "", fmt.Errorf("%s not found: run \"make build\" first", path)
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
			return "", errors.New("find go.mod: not found in this directory or above")
		}
		dir = parent
	}
}

// end stops the fleet and deletes its directory.
func (f *Fleet) end() error {
	defer f.close()
	_, err := f.Run("down")
	if auditDir() != "" && err == nil {
		err = f.collectRights()
	}
	err = errors.Join(err, f.panicked())
	_, deleteErr := f.Run("down", "--delete")
	return errors.Join(err, deleteErr)
}

// auditDir is the directory into which each fleet writes which rights were used, or "".
func auditDir() string { return os.Getenv("STARLING_AUDIT_DIR") }

// collectRights writes which rights Starling's identities used in this fleet.
func (f *Fleet) collectRights() error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	return rights.Collect(f.Dir, filepath.Join(root, "config", "rbac"), filepath.Join(auditDir(), filepath.Base(f.Dir)+".json"))
}

// Run runs a starling command for the fleet and returns its output.
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

// Kubectl runs kubectl on a space and returns its output.
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

// Config returns a client configuration for a space, with the rights of its administrator.
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

// Status returns the current status of the fleet, as `starling status` prints it. It starts no
// process, so that it can be polled.
func (f *Fleet) Status(t testing.TB) *localfleet.Status {
	t.Helper()
	fleet, err := localfleet.New(localfleet.Config{Dir: f.Dir, Executable: f.bin})
	if err != nil {
		t.Fatal(err)
	}
	status, err := fleet.Status(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// Components returns all components of the fleet except its supervisor.
func (f *Fleet) Components(t testing.TB) []localfleet.ComponentStatus {
	t.Helper()
	var all []localfleet.ComponentStatus
	for _, c := range f.Status(t).Components {
		if c.Name != localfleet.SupervisorName {
			all = append(all, c)
		}
	}
	return all
}

// Component returns the component of that name, such as "wds1/binding-controller".
func (f *Fleet) Component(t testing.TB, name string) localfleet.ComponentStatus {
	t.Helper()
	for _, c := range f.Status(t).Components {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the fleet has no component %q", name)
	return localfleet.ComponentStatus{}
}

// Kill sends SIGKILL to a component. The supervisor restarts it.
func (f *Fleet) Kill(t testing.TB, name string) {
	t.Helper()
	KillProcess(t, f.Component(t, name))
}

// KillProcess sends SIGKILL to the process of a component, which may have ended meanwhile.
func KillProcess(t testing.TB, c localfleet.ComponentStatus) {
	t.Helper()
	signal(t, c, syscall.SIGKILL)
}

// signal sends a signal to the process of a component, if it has not ended.
func signal(t testing.TB, c localfleet.ComponentStatus, s syscall.Signal) {
	t.Helper()
	if c.PID == 0 { // which would be the group of this process
		t.Fatalf("%s has no process: %s", c.Name, c.State)
	}
	if err := syscall.Kill(c.PID, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("send %s to %s: %v", s, c.Name, err)
	}
}

// KillAll sends SIGKILL to all components at once, and returns their status before. Some end by
// themselves soon after others have ended.
func (f *Fleet) KillAll(t testing.TB) []localfleet.ComponentStatus {
	t.Helper()
	all := f.Components(t)
	for _, c := range all {
		KillProcess(t, c)
	}
	return all
}

// Pause stops the process of a component with SIGSTOP, so that it does not respond, until resume is
// called or the test ends.
func (f *Fleet) Pause(t testing.TB, name string) (resume func()) {
	t.Helper()
	return PauseProcess(t, f.Component(t, name))
}

// PauseProcess is like Pause, for a process that may have ended meanwhile.
func PauseProcess(t testing.TB, c localfleet.ComponentStatus) (resume func()) {
	t.Helper()
	signal(t, c, syscall.SIGSTOP)
	resume = sync.OnceFunc(func() { signal(t, c, syscall.SIGCONT) }) // it may have been killed meanwhile
	t.Cleanup(resume)
	return resume
}

// Restart kills components at once, and blocks until all are ready again.
func (f *Fleet) Restart(t testing.TB, names ...string) {
	t.Helper()
	before := map[string]int{}
	for _, name := range names {
		before[name] = f.Component(t, name).PID
		f.Kill(t, name)
	}
	Eventually(t, Patience, func() (bool, string) {
		for _, c := range f.Components(t) {
			if pid, killed := before[c.Name]; killed && (c.PID == 0 || c.PID == pid || c.State != localfleet.StateReady) {
				return false, fmt.Sprintf("%s is %s", c.Name, c.State)
			}
		}
		return true, ""
	})
}

// Abandon has the same effect on the fleet as the end of this process: it must stop by itself.
func (f *Fleet) Abandon() { f.alive.Close() }
