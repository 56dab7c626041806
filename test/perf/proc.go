package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is the resource usage of a process since its start.
type usage struct {
	cpu time.Duration
	// rss is the resident memory, peak its maximum since the start, in bytes.
	rss, peak int64
}

// clockTick is the unit of times in /proc: USER_HZ is 100 on every Linux.
const clockTick = 10 * time.Millisecond

// Fields of /proc/<pid>/stat after the name of the program. The times of children include only
// those that have ended.
const (
	parentField     = 1
	userTime        = 11
	systemTime      = 12
	childUserTime   = 13
	childSystemTime = 14
)

// statOf returns some fields of /proc/<pid>/stat.
func statOf(pid int, fields ...int) ([]int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The second field is the name of the program. It may contain spaces and parentheses.
	all := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	values := make([]int64, len(fields))
	for i, field := range fields {
		if values[i], err = strconv.ParseInt(all[field], 10, 64); err != nil {
			return nil, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
		}
	}
	return values, nil
}

// familyCPU returns the CPU time of a process and its children, including those that have ended.
func familyCPU(pid int) (time.Duration, error) {
	own, err := statOf(pid, userTime, systemTime, childUserTime, childSystemTime)
	if err != nil {
		return 0, err
	}
	ticks := own[0] + own[1] + own[2] + own[3]
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, path := range processes {
		child, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if values, err := statOf(child, parentField, userTime, systemTime); err == nil && values[0] == int64(pid) { // else it has ended
			ticks += values[1] + values[2]
		}
	}
	return time.Duration(ticks) * clockTick, nil
}

func usageOf(pid int) (usage, error) {
	times, err := statOf(pid, userTime, systemTime)
	if err != nil {
		return usage{}, err
	}
	u := usage{cpu: time.Duration(times[0]+times[1]) * clockTick}
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
