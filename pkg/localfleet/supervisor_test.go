package localfleet

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// sleeper returns a component that does nothing. Its probe connects to a listener of the test.
func sleeper(t *testing.T, name string) *Component {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &Component{Name: name, Path: "/bin/sleep", Args: []string{"1000"}, Probe: Probe{TCP: l.Addr().String()}}
}

func newTestSupervisor(t *testing.T) *Supervisor {
	t.Helper()
	s := NewSupervisor(t.Context(), Layout{Dir: t.TempDir()}, clock.RealClock{})
	t.Cleanup(s.Close)
	return s
}

func waitStatus(t *testing.T, s *Supervisor, name string, is func(RunStatus) bool) RunStatus {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var last RunStatus
		for _, st := range s.Status() {
			if st.Component.Name == name {
				last = st
			}
		}
		if is(last) {
			return last
		}
		if time.Now().After(deadline) {
			t.Fatalf("status of %s: %+v", name, last)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func ready(s RunStatus) bool { return s.State == StateReady }

func TestSupervisorRestartsComponents(t *testing.T) {
	s := newTestSupervisor(t)
	if err := s.Ensure(sleeper(t, "wds1/sleep")); err != nil {
		t.Fatal(err)
	}
	first := waitStatus(t, s, "wds1/sleep", ready)
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := waitStatus(t, s, "wds1/sleep", func(st RunStatus) bool { return ready(st) && st.PID != first.PID })
	if second.Restarts != 1 || !strings.Contains(second.LastExit, "killed") {
		t.Errorf("after a kill: %+v", second)
	}
	s.Close()
	if alive(second.PID, second.StartTime) {
		t.Error("the process runs after its supervisor has ended")
	}
	if err := s.Ensure(sleeper(t, "wds1/late")); err == nil {
		t.Error("a component was started after Close")
	}
}

func TestEnsureRestartsChangedComponentsOnly(t *testing.T) {
	s := newTestSupervisor(t)
	c := sleeper(t, "wds1/sleep")
	if err := s.Ensure(c); err != nil {
		t.Fatal(err)
	}
	first := waitStatus(t, s, "wds1/sleep", ready)
	same := *c
	if err := s.Ensure(&same); err != nil {
		t.Fatal(err)
	}
	if again := waitStatus(t, s, "wds1/sleep", ready); again.PID != first.PID {
		t.Error("an unchanged component was restarted")
	}
	changed := *c
	changed.Args = []string{"1001"}
	if err := s.Ensure(&changed); err != nil {
		t.Fatal(err)
	}
	if again := waitStatus(t, s, "wds1/sleep", ready); again.PID == first.PID {
		t.Error("the component was not restarted with its new arguments")
	}
	s.Remove("wds1/sleep")
	if left := s.Status(); len(left) != 0 {
		t.Errorf("after its removal: %+v", left)
	}
	s.Remove("wds1/sleep") // a second call does nothing
}

func TestSupervisorCountsEarlyDeaths(t *testing.T) {
	s := newTestSupervisor(t)
	err := s.Ensure(&Component{
		Name: "wds1/false", Path: "/bin/sh", Args: []string{"-c", "echo no good; exit 3"}, Probe: Probe{TCP: "127.0.0.1:1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	st := waitStatus(t, s, "wds1/false", func(st RunStatus) bool { return st.EarlyDeaths >= 2 })
	if !strings.Contains(st.LastExit, "exit status 3") {
		t.Errorf("last exit: %q", st.LastExit)
	}
	if log := tailLog(s.layout.Log("wds1/false")); !strings.HasSuffix(log, "\nno good") {
		t.Errorf("its log ends with %q", log)
	}
}

func TestSupervisorStopsByStage(t *testing.T) {
	dir := t.TempDir()
	order := filepath.Join(dir, "order")
	s := newTestSupervisor(t)
	for name, stage := range map[string]Stage{"etcd": StageStorage, "a/kube-apiserver": StageAPIServer, "a/controller": StageController} {
		c := sleeper(t, name)
		started := filepath.Join(dir, strings.ReplaceAll(name, "/", "-"))
		script := fmt.Sprintf(`trap 'echo %s >>%s; exit 0' TERM; touch %s; while :; do sleep 0.01; done`, name, order, started)
		c.Path, c.Args, c.Env, c.Stage = "/bin/sh", []string{"-c", script}, []string{"PATH=/usr/bin:/bin"}, stage
		if err := s.Ensure(c); err != nil {
			t.Fatal(err)
		}
		waitStatus(t, s, name, func(RunStatus) bool {
			_, err := os.Stat(started)
			return err == nil
		})
	}
	s.Close()
	data, err := os.ReadFile(order)
	if err != nil {
		t.Fatal(err)
	}
	if want := "a/controller\na/kube-apiserver\netcd\n"; string(data) != want {
		t.Errorf("stopped in the order %q", data)
	}
}

func TestKillOrphansKillsRecordedProcessesOnly(t *testing.T) {
	f, err := New(Config{Dir: t.TempDir(), Executable: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	s := NewSupervisor(t.Context(), f.layout, clock.RealClock{})
	if err := s.Ensure(sleeper(t, "wds1/ours")); err != nil {
		t.Fatal(err)
	}
	ours := waitStatus(t, s, "wds1/ours", ready)
	other := newTestSupervisor(t)
	if err := other.Ensure(sleeper(t, "wds1/other")); err != nil {
		t.Fatal(err)
	}
	theirs := waitStatus(t, other, "wds1/other", ready)
	if err := s.writeComponents(); err != nil {
		t.Fatal(err)
	}
	// The ID of a recorded process, which another process has now.
	data, err := os.ReadFile(f.layout.ComponentsFile())
	if err != nil {
		t.Fatal(err)
	}
	reused := strings.Replace(string(data), "[\n", fmt.Sprintf("[\n{\"pid\": %d, \"startTime\": \"long ago\"},\n", theirs.PID), 1)
	if err := os.WriteFile(f.layout.ComponentsFile(), []byte(reused), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.killOrphans(ctx); err != nil {
		t.Fatal(err)
	}
	if alive(ours.PID, ours.StartTime) {
		t.Error("the recorded process still runs")
	}
	if !alive(theirs.PID, theirs.StartTime) {
		t.Error("a process that was not recorded was killed")
	}
	s.Close()
}

// TestEnsureStartsAComponentInBackOffAtOnce checks that a command that has repaired a component
// does not fail because of its earlier ends.
func TestEnsureStartsAComponentInBackOffAtOnce(t *testing.T) {
	s := newTestSupervisor(t)
	c := sleeper(t, "wds1/repaired")
	missing := filepath.Join(t.TempDir(), "missing")
	c.Path, c.Args = "/bin/sh", []string{"-c", "[ -e " + missing + " ] && exec sleep 1000"}
	c.Probe.TCP = "127.0.0.1:1" // never ready
	if err := s.Ensure(c); err != nil {
		t.Fatal(err)
	}
	waitStatus(t, s, c.Name, func(st RunStatus) bool { return st.EarlyDeaths >= 4 && st.State == StateBackOff })
	if err := os.WriteFile(missing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Ensure(c); err != nil {
		t.Fatal(err)
	}
	if st := waitStatus(t, s, c.Name, func(st RunStatus) bool { return st.PID > 0 }); st.EarlyDeaths != 0 {
		t.Errorf("after its repair: %+v", st)
	}
}
