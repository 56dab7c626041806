package space

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
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// supervisorClient speaks with the supervisor of a fleet.
type supervisorClient struct {
	info supervisorInfo
	http *http.Client
}

// errDown says that no supervisor runs.
var errDown = errors.New("the fleet is down")

// connect returns a client of the running supervisor, or errDown.
func (f *Fleet) connect(ctx context.Context) (*supervisorClient, error) {
	data, err := os.ReadFile(f.layout.SupervisorFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errDown
	}
	if err != nil {
		return nil, err
	}
	c := &supervisorClient{}
	if err := json.Unmarshal(data, &c.info); err != nil {
		return nil, fmt.Errorf("read %s: %w", f.layout.SupervisorFile(), err)
	}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", c.info.Socket)
		},
		MaxIdleConnsPerHost: 8,
	}}
	if _, err := c.status(ctx); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil, errDown
		}
		return nil, fmt.Errorf("speak with the supervisor: %w", err)
	}
	return c, nil
}

func (c *supervisorClient) do(ctx context.Context, method, path string, in, out any) error {
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
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return fmt.Errorf("supervisor: %s", strings.TrimSpace(string(text)))
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// status returns all components.
func (c *supervisorClient) status(ctx context.Context) ([]RunStatus, error) {
	var all []RunStatus
	err := c.do(ctx, http.MethodGet, "/components", nil, &all)
	return all, err
}

// ensure makes a component run as described; it does not wait for it.
func (c *supervisorClient) ensure(ctx context.Context, comp *Component) error {
	if err := c.do(ctx, http.MethodPut, "/components", comp, nil); err != nil {
		return fmt.Errorf("start %s: %w", comp.Name, err)
	}
	return nil
}

// remove stops a component for good.
func (c *supervisorClient) remove(ctx context.Context, name string) error {
	if err := c.do(ctx, http.MethodDelete, "/components/"+name, nil, nil); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return nil
}

// maxEarlyDeaths is how often a component may end before it is ready.
const maxEarlyDeaths = 4

// readyTimeout is how long a component may take to be ready, on a slow and busy machine.
const readyTimeout = 3 * time.Minute

// waitReady waits until the component is ready. The error names the log and holds its end.
func (f *Fleet) waitReady(ctx context.Context, c *supervisorClient, name string) error {
	var last RunStatus
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		all, err := c.status(ctx)
		if err != nil {
			return false, err
		}
		for _, s := range all {
			if s.Component.Name == name {
				last = s
			}
		}
		if last.EarlyDeaths >= maxEarlyDeaths {
			return false, fmt.Errorf("%s keeps ending before it is ready (%s)", name, last.LastExit)
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
		err = fmt.Errorf("%s is not ready after %s (%s)", name, readyTimeout, last.LastProbe)
	}
	return f.withLog(err, name)
}

// stopSupervisor asks the supervisor to end with all its components and waits until it is gone.
func (f *Fleet) stopSupervisor(ctx context.Context, c *supervisorClient) error {
	if err := c.do(ctx, http.MethodPost, "/stop", nil, nil); err != nil {
		return fmt.Errorf("stop the supervisor: %w", err)
	}
	c.http.CloseIdleConnections()
	return wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		now, err := startTime(c.info.PID)
		return err != nil || now != c.info.StartTime, nil //nolint:nilerr // the process is gone
	})
}
