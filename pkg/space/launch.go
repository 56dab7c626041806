package space

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const supervisorLog = "supervisor"

// launchSupervisor starts the supervisor as a process that outlives this one, and waits until it
// answers. With dieWith the supervisor ends when the other end of that pipe is closed.
func (f *Fleet) launchSupervisor(ctx context.Context, dieWith *os.File) (*supervisorClient, error) {
	if err := os.MkdirAll(f.layout.Logs(), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(f.layout.Log(supervisorLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(f.cfg.Executable, "supervise", "--dir", f.layout.Dir, "--bin-dir", f.cfg.BinDir) //nolint:noctx // outlives us
	cmd.Env = append(f.baseEnv(50, "250MiB"), "XDG_RUNTIME_DIR="+os.Getenv("XDG_RUNTIME_DIR"))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if dieWith != nil {
		cmd.ExtraFiles = []*os.File{dieWith}
		cmd.Args = append(cmd.Args, "--die-with-fd", strconv.Itoa(3))
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	var client *supervisorClient
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-ended:
			return false, fmt.Errorf("the supervisor ended: %w", describeExit(cmd, err))
		default:
		}
		client, err = f.connect(ctx)
		if errors.Is(err, errDown) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		if ctx.Err() == nil {
			err = f.withLog(err, supervisorLog)
		}
		return nil, err
	}
	return client, nil
}
