//go:build !linux

package localfleet

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// childAttr cannot make a child end with its parent here. The next command ends the processes that
// a killed supervisor left; see killOrphans.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startTime returns when a process was started. Together with its ID it identifies the process.
func startTime(pid int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("get the start time of process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(out)), nil
}
