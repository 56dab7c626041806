//go:build !linux

package space

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// childAttr cannot tie a child to its parent here: what a killed supervisor leaves is ended by the
// next command.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// startTime identifies a process together with its id.
func startTime(pid int) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("find process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(out)), nil
}
