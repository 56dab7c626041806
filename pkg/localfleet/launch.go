package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const supervisorLog = "supervisor"

// launchSupervisor starts the supervisor as a process that outlives this one, and blocks until it
// responds. With dieWith, the supervisor ends when the other end of that pipe is closed.
func (f *Fleet) launchSupervisor(ctx context.Context, dieWith *os.File) error {
	if err := os.MkdirAll(f.layout.Logs(), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(f.layout.Log(supervisorLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(f.cfg.Executable, "supervise", "--dir", f.layout.Dir, "--bin-dir", f.cfg.BinDir) //nolint:noctx // outlives this process
	cmd.Env = f.baseEnv(50, "250MiB")
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if dieWith != nil {
		cmd.ExtraFiles = []*os.File{dieWith}
		cmd.Args = append(cmd.Args, "--die-with-fd", "3")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("the supervisor ended: %w", describeExit(cmd, err))
		default:
		}
		err := f.connect(ctx)
		if errors.Is(err, errDown) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGTERM) // if it has not ended: it would start later
	}
	if err != nil && ctx.Err() == nil {
		err = f.withLog(err, supervisorLog)
	}
	return err
}
