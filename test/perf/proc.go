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

// usage is what a process has taken until now.
type usage struct {
	cpu time.Duration
	// rss is resident now, peak the most that ever was; in bytes.
	rss, peak int64
}

// clockTick is the unit of times in /proc: USER_HZ is 100 wherever Linux runs.
const clockTick = 10 * time.Millisecond

// Fields of /proc/<pid>/stat behind the name of the program. Times of children are of those that have ended.
const (
	parentField     = 1
	userTime        = 11
	systemTime      = 12
	childUserTime   = 13
	childSystemTime = 14
)

// statOf reads some fields.
func statOf(pid int, fields ...int) ([]int64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	// The second field is the name of the program, which may hold anything.
	all := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	values := make([]int64, len(fields))
	for i, field := range fields {
		if values[i], err = strconv.ParseInt(all[field], 10, 64); err != nil {
			return nil, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
		}
	}
	return values, nil
}

// familyCPU returns the CPU time of a process with its children, those that have ended too.
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
