package functionhost

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives a process a group of its own, which ends with it.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}

func endGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) } // mostly there is none left

// endOthers ends all other processes of a container of which this one is the first, and waits for
// them. Elsewhere it does nothing.
func endOthers() {
	if os.Getpid() != 1 {
		return
	}
	_ = syscall.Kill(-1, syscall.SIGKILL) // all but this one
	for {
		if pid, err := syscall.Wait4(-1, nil, 0, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return // there is none left
		}
	}
}
