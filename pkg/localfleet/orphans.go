package localfleet

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

// killOrphans kills the processes of a supervisor that was killed. On Linux they end with it,
// elsewhere they continue. It kills a process only if the supervisor has recorded its ID with the
// same start time.
func (f *Fleet) killOrphans(ctx context.Context) error {
	data, err := os.ReadFile(f.layout.ComponentsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []RunStatus
	if err := json.Unmarshal(data, &all); err != nil {
		return nil //nolint:nilerr // incomplete: the supervisor was killed, or the disk was full
	}
	for _, s := range all {
		if !alive(s.PID, s.StartTime) {
			continue
		}
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of an earlier %q: %w", s.PID, s.Component.Name, err)
		}
		err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
			return !alive(s.PID, s.StartTime), nil
		})
		if err != nil {
			return fmt.Errorf("wait until process %d of an earlier %q has ended: %w", s.PID, s.Component.Name, err)
		}
	}
	return os.Remove(f.layout.ComponentsFile())
}

// alive reports whether the process with that ID and start time runs.
func alive(pid int, started string) bool {
	if pid <= 0 || started == "" {
		return false
	}
	now, err := startTime(pid)
	return err == nil && now == started
}
