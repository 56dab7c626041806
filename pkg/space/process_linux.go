package space

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// childAttr makes a child die with the thread that started it; see spawner.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// startTime identifies a process together with its id: ids are used again, the pair is not until
// the machine restarts.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field is the name in parentheses and may hold anything.
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
