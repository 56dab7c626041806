package localfleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// RunState is the current state of a component.
type RunState string

// The states of a component.
const (
	// StateStarting: the process runs, and its probe has not succeeded yet.
	StateStarting RunState = "Starting"
	// StateReady: the last probe succeeded.
	StateReady RunState = "Ready"
	// StateNotReady: the last probe failed, after an earlier one succeeded.
	StateNotReady RunState = "NotReady"
	// StateBackOff: the process ended. It will be restarted after a delay.
	StateBackOff RunState = "BackOff"
	// StateStopped: a command stopped the component.
	StateStopped RunState = "Stopped"
)

// RunStatus is the status of a component in the supervisor.
type RunStatus struct {
	Component Component `json:"component"`
	State     RunState  `json:"state"`
	PID       int       `json:"pid,omitempty"`
	// StartTime and PID together identify the process.
	StartTime string `json:"startTime,omitempty"`
	// Restarts counts how often the process ended by itself.
	Restarts int `json:"restarts"`
	// EarlyDeaths counts how often in succession the process ended before it was ready.
	EarlyDeaths int `json:"earlyDeaths,omitempty"`
	// LastExit is how the process ended last. LastProbe is why it is not ready.
	LastExit  string `json:"lastExit,omitempty"`
	LastProbe string `json:"lastProbe,omitempty"`
	// Since is the time of the last change of State.
	Since time.Time `json:"since"`
}

const (
	minBackOff  = 200 * time.Millisecond
	maxBackOff  = 30 * time.Second
	stableAfter = time.Minute
	minProbe    = 50 * time.Millisecond
	maxProbe    = 3 * time.Second
)

// probeInterval returns the time to the next probe of a component that has not been ready for so
// long. A probe of an API server that starts costs it milliseconds, so the slower the machine, the
// fewer there are: what they delay is a twentieth of the start.
func probeInterval(notReadyFor time.Duration) time.Duration {
	return min(max(notReadyFor/20, minProbe), maxProbe)
}

// stopGrace returns how long a process may take to end after SIGTERM. Then it is killed.
func stopGrace(s Stage) time.Duration {
	if s == StageStorage {
		return 10 * time.Second
	}
	return 5 * time.Second
}

// child runs one component, and restarts it, until its context ends.
type child struct {
	component Component
	log       string
	clock     clock.Clock
	spawner   *spawner
	changed   func()

	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	status RunStatus
}

func (c *child) get() RunStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *child) set(change func(*RunStatus)) {
	c.mu.Lock()
	before := c.status.State
	change(&c.status)
	if c.status.State != before {
		c.status.Since = c.clock.Now()
	}
	c.mu.Unlock()
	c.changed()
}

// stop ends the process. It blocks until the process has ended.
func (c *child) stop() {
	c.cancel()
	<-c.done
}

// run starts the process and restarts it when it ends, with back-off. It returns when ctx has ended
// and the process too.
func (c *child) run(ctx context.Context) {
	defer close(c.done)
	log := klog.FromContext(ctx).WithValues("component", c.component.Name)
	backOff := minBackOff
	for {
		started := c.clock.Now()
		err := c.runOnce(ctx)
		if ctx.Err() != nil {
			c.set(func(s *RunStatus) { s.State, s.PID, s.StartTime = StateStopped, 0, "" })
			return
		}
		if c.clock.Since(started) > stableAfter {
			backOff = minBackOff
		}
		log.Info("Component ended; will restart it", "err", err, "after", backOff)
		c.set(func(s *RunStatus) {
			if s.State == StateStarting {
				s.EarlyDeaths++
			}
			s.State, s.PID, s.StartTime = StateBackOff, 0, ""
			s.Restarts++
			s.LastExit = err.Error()
		})
		select {
		case <-ctx.Done():
			c.set(func(s *RunStatus) { s.State = StateStopped })
			return
		case <-c.clock.After(backOff):
		}
		backOff = min(2*backOff, maxBackOff)
	}
}

// runOnce runs the process until it ends or ctx does. The error is never nil.
func (c *child) runOnce(ctx context.Context) error {
	c.set(func(s *RunStatus) { s.State = StateStarting })
	if err := os.MkdirAll(filepath.Dir(c.log), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd, err := c.spawner.start(&c.component, log)
	if err != nil {
		return err
	}
	started, _ := startTime(cmd.Process.Pid) // if it has ended already, Wait returns how
	c.set(func(s *RunStatus) {
		s.PID, s.StartTime, s.LastProbe = cmd.Process.Pid, started, ""
	})

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	probing, stopProbing := context.WithCancel(ctx)
	var probes sync.WaitGroup
	probes.Go(func() { c.watchReadiness(probing) })
	defer probes.Wait()
	defer stopProbing()

	select {
	case err := <-ended:
		return describeExit(cmd, err)
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has just ended
	select {
	case <-ended:
	case <-c.clock.After(stopGrace(c.component.Stage)):
		_ = cmd.Process.Kill()
		<-ended
	}
	return ctx.Err()
}

// watchReadiness probes until ctx ends: often until the component is ready, and every 3 s then.
func (c *child) watchReadiness(ctx context.Context) {
	var p *prober
	defer func() {
		if p != nil {
			p.close()
		}
	}()
	for {
		var err error
		if p == nil {
			p, err = newProber(c.component.Probe)
		}
		if err == nil {
			err = p.check(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		c.recordProbe(err)
		interval := maxProbe
		if err != nil {
			interval = probeInterval(c.clock.Since(c.get().Since))
		}
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(interval):
		}
	}
}

func (c *child) recordProbe(err error) {
	state := c.get().State
	switch {
	case err == nil && state != StateReady:
		c.set(func(s *RunStatus) { s.State, s.EarlyDeaths, s.LastProbe = StateReady, 0, "" })
	case err != nil && state == StateReady:
		c.set(func(s *RunStatus) { s.State, s.LastProbe = StateNotReady, err.Error() })
	case err != nil:
		c.mu.Lock()
		c.status.LastProbe = err.Error()
		c.mu.Unlock()
	}
}

func describeExit(cmd *exec.Cmd, err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return errors.New(cmd.ProcessState.String())
	}
	return fmt.Errorf("wait for process: %w", err)
}
