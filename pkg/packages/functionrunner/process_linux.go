package functionrunner

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processAttributes make a worker end with its parent.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// residentMemory returns the resident memory of a process in bytes, or 0 if it cannot be read.
func residentMemory(pid int) int64 {
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

// hasExited reports whether a child process that was not waited for has exited: then it has no
// memory.
func hasExited(pid int) bool { return residentMemory(pid) == 0 }

// limitMemory sets a hard limit for memory that the process may map for writing. It stops programs
// that allocate faster than residentMemory is polled. The limit is twice the configured one, since
// the runtime maps more than it uses.
func limitMemory(bytes int64) error {
	if raceDetector {
		return nil
	}
	most := uint64(bytes) * 2
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: most, Max: most})
}
