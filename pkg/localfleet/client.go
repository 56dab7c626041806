package localfleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/install/manifest"
)

const (
	// requestTimeout is how long the supervisor may take to respond on a busy machine. A request
	// that stops a process may take longer by stopGrace.
	requestTimeout = 20 * time.Second
	// stopTimeout is how long the supervisor may take to stop all processes.
	stopTimeout = time.Minute
	lockTimeout = 5 * time.Second
)

// supervisorClient is a client of the supervisor of a fleet.
type supervisorClient struct {
	info    supervisorInfo
	layout  Layout
	http    *http.Client
	timeout time.Duration
}

// errDown means that no supervisor runs.
var errDown = errors.New("the fleet is not running")

// connect connects to the running supervisor. It returns errDown if there is none, and an
// unresponsiveError if there is one that does not respond.
func (f *Fleet) connect(ctx context.Context) error {
	var cause error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, f.requestTimeout, true, func(context.Context) (bool, error) {
		f.supervisor, cause = f.dial(ctx)
		if !errors.Is(cause, fs.ErrNotExist) && !errors.Is(cause, syscall.ECONNREFUSED) && !errors.Is(cause, syscall.ECONNRESET) {
			return true, cause
		}
		// A supervisor that starts or ends has no socket, and one that is killed resets what it has
		// accepted. One that runs may have lost its socket.
		if info := loadSupervisorInfo(f.layout); !isLocked(f.layout.SupervisorLock()) && !info.alive() {
			return false, errDown
		}
		return false, nil
	})
	if err != nil && wait.Interrupted(err) && ctx.Err() == nil {
		return &unresponsiveError{info: loadSupervisorInfo(f.layout), dir: f.layout.Dir, cause: cause}
	}
	return err
}

// dial connects to the socket of the supervisor.
func (f *Fleet) dial(ctx context.Context) (*supervisorClient, error) {
	c := &supervisorClient{
		info: loadSupervisorInfo(f.layout), layout: f.layout, timeout: f.requestTimeout,
		http: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return dialSocket(ctx, f.layout.Socket())
			},
			MaxIdleConnsPerHost: 8,
		}},
	}
	if _, err := c.status(ctx); err != nil {
		return nil, fmt.Errorf("connect to the supervisor: %w", err)
	}
	if c.info.alive() {
		return c, nil
	}
	// The file is lost, but the supervisor knows who it is.
	if err := c.do(ctx, http.MethodGet, infoPath, nil, &c.info); err != nil {
		return nil, fmt.Errorf("connect to the supervisor: %w", err)
	}
	return c, nil
}

// do sends a request and reads its response. It does not wait forever.
func (c *supervisorClient) do(ctx context.Context, method, path string, in, out any) error {
	timeout := c.timeout
	if method == http.MethodPut || method == http.MethodDelete {
		timeout += stopGrace(StageStorage)
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := c.request(limited, method, path, in, out)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &unresponsiveError{info: c.info, dir: c.layout.Dir, cause: fmt.Errorf("no response within %s", timeout)}
	}
	return err
}

func (c *supervisorClient) request(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, body)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		message, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("supervisor: %s", strings.TrimSpace(string(message)))
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// status returns the status of all components.
func (c *supervisorClient) status(ctx context.Context) ([]RunStatus, error) {
	var all []RunStatus
	err := c.do(ctx, http.MethodGet, "/components", nil, &all)
	return all, err
}

// ensure makes the supervisor run the component. It does not wait until the component is ready.
func (c *supervisorClient) ensure(ctx context.Context, comp *Component) error {
	if err := c.do(ctx, http.MethodPut, "/components", comp, nil); err != nil {
		return fmt.Errorf("start component %q: %w", comp.Name, err)
	}
	return nil
}

// remove makes the supervisor stop and forget a component.
func (c *supervisorClient) remove(ctx context.Context, name string) error {
	if err := c.do(ctx, http.MethodDelete, "/components/"+name, nil, nil); err != nil {
		return fmt.Errorf("stop component %q: %w", name, err)
	}
	return nil
}

// maxEarlyDeaths is how often a component may end before it is ready. Then a command fails.
const maxEarlyDeaths = 4

// readyTimeout is how long a component may take to become ready on a slow and busy machine.
const readyTimeout = 3 * time.Minute

// run starts a component and blocks until it is ready.
func (f *Fleet) run(ctx context.Context, c *Component) error {
	if err := f.supervisor.ensure(ctx, c); err != nil {
		return err
	}
	return f.waitReady(ctx, c.Name)
}

// runAs starts a component that connects to its space as a ServiceAccount, and blocks until it is
// ready.
func (f *Fleet) runAs(ctx context.Context, identity manifest.Account, c *Component) error {
	if err := f.writeTokenKubeconfig(ctx, c.Space(), c.Program(), identity); err != nil {
		return err
	}
	return f.run(ctx, c)
}

// waitReady blocks until the component is ready. The error includes the path of the log and its
// end.
func (f *Fleet) waitReady(ctx context.Context, name string) error {
	var last RunStatus
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		all, err := f.supervisor.status(ctx)
		if err != nil {
			return false, err
		}
		for _, s := range all {
			if s.Component.Name == name {
				last = s
			}
		}
		if last.EarlyDeaths >= maxEarlyDeaths {
			return false, fmt.Errorf("start component %q: it ended %s before it was ready, at last with: %s",
				name, text.Count(last.EarlyDeaths, "time"), last.LastExit)
		}
		return last.State == StateReady, nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if wait.Interrupted(err) {
		err = fmt.Errorf("start component %q: it is not ready after %s: %s", name, readyTimeout, last.LastProbe)
	}
	return f.withLog(err, name)
}

// stopSupervisor makes the supervisor stop all components and end. It blocks until the supervisor
// has ended.
func (f *Fleet) stopSupervisor(ctx context.Context) error {
	c := f.supervisor
	if err := c.do(ctx, http.MethodPost, "/stop", nil, nil); err != nil {
		return fmt.Errorf("stop the supervisor: %w", err)
	}
	c.http.CloseIdleConnections()
	return f.waitEnded(ctx, &c.info)
}

// terminate ends a supervisor that does not respond at its socket. It stops its components if it
// still can.
func (f *Fleet) terminate(ctx context.Context, info *supervisorInfo) error {
	if err := syscall.Kill(info.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end process %d: %w", info.PID, err)
	}
	return f.waitEnded(ctx, info)
}

// waitEnded blocks until the supervisor has ended.
func (f *Fleet) waitEnded(ctx context.Context, info *supervisorInfo) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, f.stopTimeout, true, func(context.Context) (bool, error) {
		return !info.alive(), nil
	})
	if err != nil && ctx.Err() == nil {
		return &unresponsiveError{info: *info, dir: f.layout.Dir, cause: fmt.Errorf("it was asked to end %s ago", f.stopTimeout)}
	}
	return err
}
