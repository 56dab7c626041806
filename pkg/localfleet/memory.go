package localfleet

import (
	"fmt"
	"os"
	"strings"
)

// Memory is the memory of processes in bytes.
type Memory struct {
	// RSS is the resident set size. Shared pages count for each process.
	RSS int64 `json:"rss"`
	// PSS is the proportional set size: shared pages are divided among their processes. 0 if
	// unknown.
	PSS int64 `json:"pss,omitempty"`
}

func (m *Memory) add(other Memory) {
	m.RSS += other.RSS
	m.PSS += other.PSS
}

// processMemory returns the memory of a process, or 0 if it is unknown.
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

// procField returns the value of a field of a file in /proc, which is in kB there, in bytes.
func procField(data []byte, name string) int64 {
	_, value, _ := strings.Cut(string(data), "\n"+name)
	var kb int64
	_, _ = fmt.Sscan(value, &kb) // 0 if there is no such field
	return kb << 10
}
