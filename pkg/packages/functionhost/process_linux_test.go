package functionhost_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

// TestEndsAllOfItsContainer: what a function has moved to a session of its own ends too, if the
// host is the first process of its container. The test is that process in a namespace of processes.
func TestEndsAllOfItsContainer(t *testing.T) {
	if os.Getpid() != 1 {
		command := exec.Command(os.Args[0], "-test.run=^TestEndsAllOfItsContainer$", "-test.v")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
		out, err := command.CombinedOutput()
		if errors.Is(err, syscall.EPERM) {
			t.Skip("only root may create a namespace of processes")
		}
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	// The host waits until it has closed the output, so it has its session by then.
	got, err := host(t, "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &", testenv.Patience, 1024).Run(t.Context(), image, "")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(got.Stdout))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is there: %v", pid, err)
	}
}

// TestOutputOfAChild: a program that has succeeded has, also if a child of it has its output still.
func TestOutputOfAChild(t *testing.T) {
	got, err := host(t, "sleep 1000 & echo done", testenv.Patience, 1024).Run(t.Context(), image, "")
	if err != nil || got.Stdout != "done\n" || got.ExitCode != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
