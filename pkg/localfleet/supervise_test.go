package localfleet

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// supervise runs the supervisor of a fleet in this process until the test ends or stop is called.
func supervise(t *testing.T, f *Fleet) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Supervise(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the supervisor ended: %v", err)
		}
	})
	t.Cleanup(stop)
	until(t, func() error { _, err := testFleet(t, f.layout.Dir).dial(t.Context()); return err })
	return stop
}

// until waits until do succeeds. testenv imports this package, so its Eventually cannot be used.
func until(t *testing.T, do func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		last = do()
		return last == nil, nil
	})
	if err != nil {
		t.Fatal(errors.Join(err, last))
	}
}

// TestRunningFleetWithDamagedFiles damages the files of the supervisor while it runs.
func TestRunningFleetWithDamagedFiles(t *testing.T) {
	for name, do := range damages {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "fleet")
			stop := supervise(t, newTestFleet(t, dir))
			if err := do(filepath.Join(dir, "supervisor.json")); err != nil {
				t.Fatal(err)
			}
			f := testFleet(t, dir)
			st, err := f.Status(t.Context())
			if err != nil || !st.Running || st.Components[0].PID != os.Getpid() {
				t.Errorf("status: %+v, %v", st, err)
			}
			stop()
			if err := f.connect(t.Context()); !errors.Is(err, errDown) {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

// TestUnresponsiveSupervisor checks that no command waits forever, or ignores a supervisor that
// runs.
func TestUnresponsiveSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	f := newTestFleet(t, dir)
	lock, err := lockFile(f.layout.SupervisorLock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	want := func(what string, err error, texts ...string) {
		t.Helper()
		if _, ok := errors.AsType[*unresponsiveError](err); !ok {
			t.Errorf("%s: want an unresponsiveError, got %v", what, err)
			return
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: want %q in %q", what, text, err)
			}
		}
	}
	process := sleeper(t, "other")
	s := newTestSupervisor(t)
	if err := s.Ensure(process); err != nil {
		t.Fatal(err)
	}
	running := waitStatus(t, s, "other", ready)

	_, err = impatient(t, dir).Status(t.Context())
	want("a lost socket, and an unknown process", err, "starling supervise --dir")

	info := supervisorInfo{PID: running.PID, StartTime: running.StartTime}
	if err := info.save(f.layout); err != nil {
		t.Fatal(err)
	}
	_, err = impatient(t, dir).Status(t.Context())
	want("a lost socket", err, "kill -KILL "+strconv.Itoa(running.PID))

	listener, err := net.Listen("unix", f.layout.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // it never responds
	_, err = impatient(t, dir).Status(t.Context())
	want("a hung supervisor", err, "kill -KILL "+strconv.Itoa(running.PID), "no response within")
	_, err = impatient(t, dir).Up(t.Context(), &UpOptions{})
	want("up", err)

	// Its process can still be ended.
	if err := impatient(t, dir).Down(t.Context(), false); err != nil {
		t.Errorf("down: %v", err)
	}
	if info.alive() {
		t.Error("down did not end the process")
	}
}

// impatient returns a fleet that soon takes its supervisor for unresponsive.
func impatient(t *testing.T, dir string) *Fleet {
	t.Helper()
	f := testFleet(t, dir)
	f.requestTimeout, f.stopTimeout = 200*time.Millisecond, 5*time.Second
	return f
}

// TestPrivateFiles runs a supervisor with a umask that takes no rights.
func TestPrivateFiles(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := filepath.Join(t.TempDir(), "fleet")
	supervise(t, newTestFleet(t, dir))
	for _, file := range filesOf(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", file, info.Mode())
		}
	}
	unix.Umask(0o777)
	path := filepath.Join(dir, "file")
	if err := writeFile(path, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("with a umask that takes all rights: %v, %v", info.Mode(), err)
	}
}

func TestSocketInADirectoryWithALongName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	f := newTestFleet(t, dir)
	supervise(t, f)()
	if _, err := os.Lstat(f.layout.Socket()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}
