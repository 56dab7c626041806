package localfleet_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/testenv"
)

// processesOf returns the processes whose command line includes the directory of the fleet.
func processesOf(t *testing.T, f *testenv.Fleet) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("needs /proc")
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(cmdline, []byte(f.Dir)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestCommandLinesNameComponentAndDirectory(t *testing.T) {
	f := testenv.Shared(t)
	for _, c := range f.Components(t) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.PID))
		if err != nil {
			t.Skip("needs /proc")
		}
		cmdline := strings.ReplaceAll(string(data), "\x00", " ")
		if !strings.Contains(cmdline, c.Program) || !strings.Contains(cmdline, f.Dir) {
			t.Errorf("the command line of %s does not name it and its directory: %s", c.Name, cmdline)
		}
	}
}

func TestEveryChildComesBackAfterKill(t *testing.T) {
	f := testenv.Shared(t)
	before := map[string]localfleet.ComponentStatus{}
	for _, c := range f.KillAll(t) {
		before[c.Name] = c
	}
	testenv.Eventually(t, 5*time.Minute, func() (bool, string) {
		for _, c := range f.Components(t) {
			switch old := before[c.Name]; {
			case c.State != localfleet.StateReady:
				return false, fmt.Sprintf("%s is %s", c.Name, c.State)
			case c.PID == old.PID:
				return false, fmt.Sprintf("%s has its old process", c.Name)
			case c.Restarts <= old.Restarts:
				return false, fmt.Sprintf("%s counts no restart", c.Name)
			}
		}
		return true, ""
	})
	testenv.Eventually(t, 5*time.Minute, func() (bool, string) {
		out, err := f.Run("kubectl", "--", "--context", "cluster1", "get", "namespaces")
		return err == nil, fmt.Sprint(out, err)
	})
}

func TestKilledSupervisorLeavesNothing(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a process to its parent")
	}
	f := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}})
	f.Kubectl(t, "wds1", "create", "namespace", "kept")
	f.Kill(t, localfleet.SupervisorName)
	testenv.Eventually(t, 5*time.Minute, func() (bool, string) {
		left := processesOf(t, f)
		return len(left) == 0, fmt.Sprintf("processes %v are left", left)
	})

	// The next command starts the fleet again, with its data.
	if out, err := f.Run("status"); err == nil || !strings.Contains(out, "is not running") {
		t.Errorf("status of a killed fleet: %q, %v", out, err)
	}
	if _, err := f.Up(); err != nil {
		t.Fatal(err)
	}
	f.Kubectl(t, "wds1", "get", "namespace", "kept")
}

// TestUpRightAfterAKill starts a fleet while the processes of its killed supervisor still end, and
// their list is lost.
func TestUpRightAfterAKill(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a process to its parent")
	}
	f := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}})
	server := f.Component(t, "wds1/kube-apiserver")
	f.Kill(t, localfleet.SupervisorName)
	damage(t, f, "components.json")
	if _, err := f.Up(); err != nil {
		t.Fatal(err)
	}
	if now := f.Component(t, "wds1/kube-apiserver"); now.Address != server.Address {
		t.Errorf("address: was %s, is %s", server.Address, now.Address)
	}
}

func TestFleetDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	f := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}})
	f.Abandon()
	testenv.Eventually(t, 5*time.Minute, func() (bool, string) {
		left := processesOf(t, f)
		_, err := os.Stat(f.Dir)
		return len(left) == 0 && os.IsNotExist(err), fmt.Sprintf("processes %v, directory: %v", left, err)
	})
}
