package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// endLeftovers ends what a killed supervisor has left. On Linux its children die with it; elsewhere
// they go on. A process is ours only if both its id and the time of its start are those that the
// supervisor wrote down.
func (f *Fleet) endLeftovers(ctx context.Context) error {
	data, err := os.ReadFile(f.layout.ComponentsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []RunStatus
	if err := json.Unmarshal(data, &all); err != nil {
		return nil //nolint:nilerr // cut short when the supervisor was killed, or the disk was full
	}
	for _, s := range all {
		if !alive(s.PID, s.StartTime) {
			continue
		}
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end process %d, which an earlier run of %s has left: %w", s.PID, s.Component.Name, err)
		}
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			return !alive(s.PID, s.StartTime), nil
		})
		if err != nil {
			return fmt.Errorf("wait for the end of process %d, which an earlier run of %s has left: %w", s.PID, s.Component.Name, err)
		}
	}
	return os.Remove(f.layout.ComponentsFile())
}

// alive says whether the process that was started at that time still runs.
func alive(pid int, started string) bool {
	if pid <= 0 || started == "" {
		return false
	}
	now, err := startTime(pid)
	return err == nil && now == started
}
