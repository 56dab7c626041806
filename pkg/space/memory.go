package space

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is what processes occupy, in bytes.
type Memory struct {
	// RSS is the resident set: pages shared by several processes count in each.
	RSS int64 `json:"rss"`
	// PSS divides shared pages among those who share them; 0 where the system does not tell.
	PSS int64 `json:"pss,omitempty"`
}

// memoryOf sums the memory of the supervisor and all components.
func memoryOf(supervisor int, all []RunStatus) Memory {
	sum := processMemory(supervisor)
	for _, s := range all {
		m := processMemory(s.PID)
		sum.RSS += m.RSS
		sum.PSS += m.PSS
	}
	return sum
}

// processMemory reads the memory of a process; it is 0 where that cannot be known.
func processMemory(pid int) Memory {
	if pid <= 0 {
		return Memory{}
	}
	if data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
		return Memory{RSS: procField(data, "Rss:"), PSS: procField(data, "Pss:")}
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}
	}
	return Memory{RSS: procField(data, "VmRSS:")}
}

// procField returns a field of a file in /proc that is given in kB.
func procField(data []byte, name string) int64 {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), name)
		if !found {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return 0
		}
		return kb << 10
	}
	return 0
}
