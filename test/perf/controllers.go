package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// controller is a process whose resources are measured.
type controller struct {
	name string
	pid  int

	// The other fields are set for controllers that this program started.
	program string
	args    []string
	address string
	log     string
	process *exec.Cmd
}

// own reports whether this program started the process, and so can restart it.
func (c *controller) own() bool { return c.args != nil }

// ownControllers starts Starling's controllers for the spaces of a fleet, with more flags by their
// names. They have no leader election: replicas that do not lead are ready too, so readiness would
// mean nothing.
func ownControllers(ctx context.Context, dir, wds, its string, flags map[string][]string, names ...string) ([]*controller, error) {
	var all []*controller
	for _, name := range names {
		c, err := ownController(ctx, dir, wds, its, name, flags[name]...)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

// ownController starts one of them with more flags.
func ownController(ctx context.Context, dir, wds, its, name string, flags ...string) (*controller, error) {
	kubeconfig := filepath.Join(dir, "kubeconfig")
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	c := &controller{
		name: name, program: name, address: address, log: filepath.Join(dir, "perf-"+name+".log"),
		args: append([]string{
			"--wds-kubeconfig", kubeconfig, "--wds-context", wds, "--wds-name", wds, "--its", its + "=" + kubeconfig,
			"--health-address", address, "--leader-elect=false", "--pprof",
		}, flags...),
	}
	if err := c.start(); err != nil {
		return nil, err
	}
	return c, nil
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func (c *controller) start() error {
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	c.process = exec.Command(binary(c.program), c.args...)
	c.process.Stdout, c.process.Stderr = log, log
	// If this process is killed, the kernel kills the controller too.
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.process.Start(); err != nil {
		return err
	}
	c.pid = c.process.Process.Pid
	return nil
}

// stop ends the process and waits until it has ended.
func (c *controller) stop() error {
	if c.process == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- c.process.Wait() }()
	_ = c.process.Process.Signal(syscall.SIGTERM)
	var err error
	select {
	case err = <-ended:
	case <-time.After(10 * time.Second):
		_ = c.process.Process.Kill()
		<-ended
		err = errors.New("did not end after a signal")
	}
	c.process = nil
	if err != nil {
		tail, _ := os.ReadFile(c.log)
		lines := bytes.Split(bytes.TrimSpace(tail), []byte("\n"))
		return fmt.Errorf("%s: %w\n%s", c.name, err, bytes.Join(lines[max(0, len(lines)-10):], []byte("\n")))
	}
	return nil
}

// waitReady blocks until /readyz succeeds.
func (c *controller) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s was not ready after %s; see %s", c.name, limit, c.log))
	defer cancel()
	for {
		if _, err := c.get(ctx, "/readyz"); err == nil {
			return nil
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *controller) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s: %s", c.address, path, response.Status)
	}
	return body, err
}

// metric returns the sum of all samples of a metric, or false if there is none.
func (c *controller) metric(ctx context.Context, name string) (sum float64, found bool, err error) {
	if !c.own() {
		return 0, false, nil
	}
	text, err := c.get(ctx, "/metrics")
	if err != nil {
		return 0, false, err
	}
	err = eachSample(text, name, func(_ map[string]string, value float64) {
		sum += value
		found = true
	})
	return sum, found, err
}
