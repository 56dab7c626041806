package functionrunner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/functionhost"
)

// Config bounds the cost of functions. Zero values mean the defaults.
type Config struct {
	// Workers is the number of processes that run at the same time; 2 by default.
	Workers int
	// Timeout bounds one function; 10 s by default.
	Timeout time.Duration
	// RenderTimeout bounds reading a package and all its functions together, since other packages
	// wait for the process; 30 s by default, which is less than a request may take. It includes the
	// start of the process, which takes seconds on a busy machine.
	RenderTimeout time.Duration
	// Memory bounds the resident memory of a process in bytes; 512 MiB by default.
	Memory int64
	// MaxMessage bounds a package and its result in bytes; functionhost.MaxBytes by default.
	MaxMessage int
	// Hosts run the functions that are not built in; nil if there are none.
	Hosts *functionhost.Client
	// MaxCalls is the number of packages after which a process is replaced; 1000 by default.
	MaxCalls int
}

// memoryPollInterval is the time between two checks of the memory of a working process.
const memoryPollInterval = 20 * time.Millisecond

// A KilledError is returned if a function was killed. Image is empty if none had started yet.
type KilledError struct{ Image, Reason string }

func (e *KilledError) Error() string { return describe(e.Image) + " was killed: " + e.Reason }

// describe returns what runs, in words for users.
func describe(image string) string {
	if image == "" {
		return "reading the package"
	}
	return "function " + image
}

// Pool runs functions in processes, and reuses idle ones.
type Pool struct {
	config Config
	binary string
	dir    string
	slots  chan struct{}

	mu     sync.Mutex
	idle   []*process
	closed bool
}

// NewPool returns a Pool of processes of this binary, whose main function must call Main. Close
// ends them.
func NewPool(config Config) (*Pool, error) {
	config.Workers = cmp.Or(config.Workers, 2)
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.RenderTimeout = cmp.Or(config.RenderTimeout, 30*time.Second)
	config.Memory = cmp.Or(config.Memory, 512<<20)
	config.MaxMessage = cmp.Or(config.MaxMessage, functionhost.MaxBytes)
	config.MaxCalls = cmp.Or(config.MaxCalls, 1000)
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "function-worker-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // nothing is written to this directory
		return nil, err
	}
	return &Pool{config: config, binary: binary, dir: dir, slots: make(chan struct{}, config.Workers)}, nil
}

// Close ends the idle processes. Working ones end after their calls.
func (p *Pool) Close() error {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, w := range idle {
		w.end()
	}
	return os.Remove(p.dir)
}

// dispatch sends a package to a process. It blocks until a process is free or ctx ends.
func (p *Pool) dispatch(ctx context.Context, files kpt.Files) (response, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return response{}, ctx.Err()
	}
	w, err := p.acquireProcess()
	if err != nil {
		return response{}, fmt.Errorf("start function worker: %w", err)
	}
	answer, err := p.call(ctx, w, files)
	if err != nil {
		w.end()
		return response{}, err
	}
	p.releaseProcess(w)
	return answer, nil
}

// call sends a package to a process, and blocks until the response, the timeout of a function, or
// too much memory.
func (p *Pool) call(ctx context.Context, w *process, files kpt.Files) (response, error) {
	type outcome struct {
		answer response
		err    error
	}
	outcomes := make(chan outcome)
	stop := make(chan struct{})
	defer close(stop)
	hosts, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		err := send(w.stdin, files, p.config.MaxMessage)
		for {
			o := outcome{err: err}
			if err == nil {
				o.err = receive(w.stdout, &o.answer, p.config.MaxMessage)
			}
			if call := o.answer.Container; call != nil && o.err == nil {
				err = p.answer(hosts, w, call)
				continue
			}
			select {
			case outcomes <- o:
			case <-stop:
				return
			}
			if o.err != nil || o.answer.Running == "" {
				return
			}
		}
	}()
	var deadline <-chan time.Time // of the running function
	whole := time.NewTimer(p.config.RenderTimeout)
	defer whole.Stop()
	ticker := time.NewTicker(memoryPollInterval)
	defer ticker.Stop()
	running := ""
	for {
		killed := ""
		select {
		case o := <-outcomes:
			switch {
			case o.err == nil && o.answer.Running != "":
				running = o.answer.Running
				deadline = time.After(p.config.Timeout)
				continue
			case o.err == nil:
				return o.answer, nil
			case errors.Is(o.err, errSize):
				return response{}, fmt.Errorf("%s: size of input or output: %w", describe(running), o.err)
			}
			w.end()
			return response{}, &KilledError{running, "its process exited: " + w.exitReason()}
		case <-deadline:
			killed = fmt.Sprintf("it took longer than %s", p.config.Timeout)
		case <-whole.C:
			killed = fmt.Sprintf("all functions of the package together took longer than %s", p.config.RenderTimeout)
			if running == "" {
				killed = fmt.Sprintf("it took longer than %s", p.config.RenderTimeout)
			}
		case <-ctx.Done():
			killed = "its request was canceled"
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				killed = "its request timed out"
			}
		case <-ticker.C:
			if held := residentMemory(w.command.Process.Pid); held > p.config.Memory {
				killed = fmt.Sprintf("it used more than %d MiB of memory", p.config.Memory>>20)
			}
		}
		if killed == "" {
			continue
		}
		_ = w.command.Process.Kill()
		leave()
		for { // the streams break, which yields an outcome unless there was one before
			switch o := <-outcomes; {
			case o.err != nil:
				return response{}, &KilledError{running, killed}
			case o.answer.Running == "":
				return o.answer, nil
			default:
				running = o.answer.Running
			}
		}
	}
}

// answer has a host run a function, and sends the result to a process.
func (p *Pool) answer(ctx context.Context, w *process, call *containerCall) error {
	answer := containerAnswer{NotListed: true}
	if p.config.Hosts != nil {
		result, err := p.config.Hosts.Run(ctx, call.Image, call.List)
		answer = containerAnswer{Container: result, NotListed: errors.Is(err, functionhost.ErrNotListed)}
		if err != nil {
			answer.Error = err.Error()
		}
	}
	err := send(w.stdin, answer, p.config.MaxMessage)
	if errors.Is(err, errSize) {
		err = send(w.stdin, containerAnswer{Error: "size of the output: " + err.Error()}, p.config.MaxMessage)
	}
	return err
}

// process is a worker process.
type process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  *outputHead
	calls   int
	waited  sync.Once
}

func (p *Pool) acquireProcess() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the function pool is closed")
	}
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		w := p.idle[last]
		p.idle = p.idle[:last]
		if !hasExited(w.command.Process.Pid) {
			return w, nil
		}
		w.end() // something else killed it, which must not fail this call
	}
	//nolint:noctx // our own binary; it outlives the call
	command := exec.Command(p.binary, workerArgument, strconv.FormatInt(p.config.Memory, 10), strconv.Itoa(p.config.MaxMessage))
	command.Dir, command.Env = p.dir, []string{}
	w := &process{command: command, stderr: &outputHead{}}
	command.Stderr = w.stderr
	command.SysProcAttr = processAttributes()
	var err error
	if w.stdin, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	if w.stdout, err = command.StdoutPipe(); err != nil {
		return nil, err
	}
	return w, command.Start()
}

func (p *Pool) releaseProcess(w *process) {
	w.calls++
	p.mu.Lock()
	if !p.closed && w.calls < p.config.MaxCalls {
		p.idle = append(p.idle, w)
		w = nil
	}
	p.mu.Unlock()
	if w != nil {
		w.end()
	}
}

// end kills the process and waits for it.
func (w *process) end() {
	w.waited.Do(func() {
		_ = w.command.Process.Kill()
		_ = w.command.Wait()
	})
}

// exitReason returns the first line of what the process wrote to standard error. The process must
// have ended.
func (w *process) exitReason() string {
	line, _, _ := strings.Cut(strings.TrimSpace(w.stderr.head.String()), "\n")
	return cmp.Or(line, "no output")
}

// outputHead stores the beginning of the output of a process: a crash begins with its reason.
type outputHead struct{ head bytes.Buffer }

func (t *outputHead) Write(text []byte) (int, error) {
	const most = 4 << 10
	t.head.Write(text[:min(len(text), max(0, most-t.head.Len()))])
	return len(text), nil
}
