package fnworker

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// attributes make a worker end with us.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// resident returns how much memory a process holds in bytes; 0 if that cannot be told.
func resident(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// ended tells whether a process of ours that was not waited for has ended: such a one holds nothing.
func ended(pid int) bool { return resident(pid) == 0 }

// limitMemory sets what the process may map to write to: a wall behind the one that resident is for, which a program could jump
// between two looks. It is twice as far away, since the runtime maps more than it holds.
func limitMemory(bytes int64) error {
	if detector {
		return nil
	}
	most := uint64(bytes) * 2
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: most, Max: most})
}
