package runner

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// KillVariable names a point between two writes at which this process kills itself, the n-th time with #n after it, so that tests can look
// at what is left.
const KillVariable = "STARLING_KILL_AT"

// Killer returns a function that kills this process, as nothing else could, when it is told the point, as often as it says; nil for "".
func Killer(at string) func(point string) {
	if at == "" {
		return nil
	}
	at, digits, _ := strings.Cut(at, "#")
	times, err := strconv.Atoi(digits)
	if err != nil {
		times = 1
	}
	var reached atomic.Int64
	return func(point string) {
		if point == at && reached.Add(1) == int64(times) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // it takes a moment
		}
	}
}
