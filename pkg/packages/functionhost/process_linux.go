package functionhost

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a process a group of its own, which ends with it.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
}

func endGroup(leader int) { _ = syscall.Kill(-leader, syscall.SIGKILL) } // mostly there is none left
