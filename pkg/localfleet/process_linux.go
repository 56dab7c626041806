package localfleet

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// childAttr makes the kernel kill a child when the thread that started it ends; see spawner.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// startTime returns when a process was started. A process ID may be reused, but an ID with its
// start time is unique. It includes the boot ID, so it is unique over restarts of the machine too.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the name in parentheses. It may contain spaces and parentheses.
	s := string(stat)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	const state, start = 0, 19
	if len(fields) <= start {
		return "", fmt.Errorf("read /proc/%d/stat: too few fields", pid)
	}
	if fields[state] == "Z" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[start], nil
}
