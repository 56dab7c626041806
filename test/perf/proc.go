package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has taken until now.
type usage struct {
	cpu time.Duration
	// rss is resident now, peak the most that ever was; in bytes.
	rss, peak int64
}

// clockTick is the unit of times in /proc: USER_HZ is 100 wherever Linux runs.
const clockTick = 10 * time.Millisecond

func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// The second field is the name of the program, which may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const userTime, systemTime = 11, 12
	var u usage
	for _, i := range []int{userTime, systemTime} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return usage{}, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
		}
		u.cpu += time.Duration(ticks) * clockTick
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			u.rss = kib << 10
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kib); err == nil {
			u.peak = kib << 10
		}
	}
	return u, nil
}
