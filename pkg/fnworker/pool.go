package fnworker

import (
	"bytes"
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

	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
)

// Config bounds what functions may cost. Zero means the default.
type Config struct {
	// Workers is how many processes run at the same time; 2 by default.
	Workers int
	// Timeout bounds a function; 10 s by default.
	Timeout time.Duration
	// Rendering bounds all functions of a package together: others wait for the process. 30 s by default, within the time of a request.
	Rendering time.Duration
	// Memory bounds what a process holds in bytes; 512 MiB by default.
	Memory int64
	// Message bounds what goes in and comes out of a call in bytes; 32 MiB by default.
	Message int
	// Calls is how many calls a process takes before another takes its place; 1000 by default.
	Calls int
}

// watchEvery is how often the memory of a process is looked at while it works.
const watchEvery = 20 * time.Millisecond

// A KilledError says that a function was killed, and why. Image is empty if none ran yet.
type KilledError struct{ Image, Reason string }

func (e *KilledError) Error() string { return what(e.Image) + " was killed: " + e.Reason }

// what is how a user knows what runs.
func what(image string) string {
	if image == "" {
		return "reading the package"
	}
	return "function " + image
}

// Pool runs functions in processes. Those that are idle wait for the next call.
type Pool struct {
	config Config
	binary string
	dir    string
	places chan struct{}

	mu     sync.Mutex
	idle   []*process
	closed bool
}

// NewPool returns a Pool of processes of this binary, whose main must call Main. Close ends them.
func NewPool(config Config) (*Pool, error) {
	if config.Workers <= 0 {
		config.Workers = 2
	}
	if config.Timeout <= 0 {
		config.Timeout = 10 * time.Second
	}
	if config.Rendering <= 0 {
		config.Rendering = 30 * time.Second
	}
	if config.Memory <= 0 {
		config.Memory = 512 << 20
	}
	if config.Message <= 0 {
		config.Message = 32 << 20
	}
	if config.Calls <= 0 {
		config.Calls = 1000
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "function-worker-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o500); err != nil { //nolint:gosec // a directory that nothing is written to
		return nil, err
	}
	return &Pool{config: config, binary: binary, dir: dir, places: make(chan struct{}, config.Workers)}, nil
}

// Close ends the processes that are idle; those that work end with their calls.
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

// Evaluate runs a function. It waits for a free process as long as ctx allows.
func (p *Pool) Evaluate(ctx context.Context, image string, in functions.Input) (functions.Output, error) {
	items, err := encode(in.Items)
	if err != nil {
		return functions.Output{}, err
	}
	call := request{Image: image, Items: items}
	if in.Config != nil {
		if call.Config, err = in.Config.String(); err != nil {
			return functions.Output{}, err
		}
	}
	answer, err := p.do(ctx, call)
	if err != nil {
		return functions.Output{}, err
	}
	return output(answer, in)
}

// do has a process answer a call. It waits for one that is free as long as ctx allows.
func (p *Pool) do(ctx context.Context, call request) (response, error) {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return response{}, ctx.Err()
	}
	w, err := p.take()
	if err != nil {
		return response{}, fmt.Errorf("start function worker: %w", err)
	}
	answer, err := p.call(ctx, w, call)
	if err != nil {
		w.end()
		return response{}, err
	}
	p.give(w)
	if answer.Runaway {
		image := call.Image
		if answer.Rendering != nil && len(answer.Rendering.Results.Items) > 0 { // the one that ran last
			image = answer.Rendering.Results.Items[len(answer.Rendering.Results.Items)-1].Image
		}
		return response{}, &KilledError{image, answer.Error}
	}
	return answer, nil
}

func output(answer response, in functions.Input) (functions.Output, error) {
	out := functions.Output{Results: answer.Results, Stderr: answer.Stderr}
	if answer.Error != "" {
		return out, errors.New(answer.Error)
	}
	for _, made := range answer.Items {
		result := functions.Item{Path: made.Path, Index: made.Index}
		if made.Same > 0 && made.Same <= len(in.Items) {
			result.Node = in.Items[made.Same-1].Node
		} else {
			node, err := decode(made.Text)
			if err != nil {
				return out, fmt.Errorf("read what the function made: %w", err)
			}
			result.Node = node
		}
		out.Items = append(out.Items, result)
	}
	return out, nil
}

// call sends a call to a process and waits for the answer, the deadline of a function, or too much memory.
func (p *Pool) call(ctx context.Context, w *process, call request) (response, error) {
	type outcome struct {
		answer response
		err    error
	}
	outcomes := make(chan outcome)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		err := send(w.stdin, call, p.config.Message)
		for {
			o := outcome{err: err}
			if err == nil {
				o.err = receive(w.stdout, &o.answer, p.config.Message)
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
	deadline := time.NewTimer(p.config.Timeout)
	defer deadline.Stop()
	whole := time.NewTimer(p.config.Rendering)
	defer whole.Stop()
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	running := call.Image
	for {
		killed := ""
		select {
		case o := <-outcomes:
			switch {
			case o.err == nil && o.answer.Running != "":
				running = o.answer.Running
				deadline.Reset(p.config.Timeout)
				continue
			case o.err == nil:
				return o.answer, nil
			case errors.Is(o.err, errSize):
				return response{}, fmt.Errorf("%s: what goes in or comes out: %w", what(running), o.err)
			}
			w.end()
			return response{}, &KilledError{running, "its process ended: " + w.lastWords()}
		case <-deadline.C:
			killed = fmt.Sprintf("it took longer than %s", p.config.Timeout)
		case <-whole.C:
			killed = fmt.Sprintf("all functions of the package together took longer than %s", p.config.Rendering)
		case <-ctx.Done():
			killed = "its caller went away"
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				killed = "its caller waits no longer"
			}
		case <-ticker.C:
			if held := resident(w.command.Process.Pid); held > p.config.Memory {
				killed = fmt.Sprintf("it held more than %d MiB of memory", p.config.Memory>>20)
			}
		}
		if killed == "" {
			continue
		}
		w.kill()
		for { // the streams break; then there is an outcome, if there was none before
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

// process is a worker.
type process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.Reader
	stderr  *tail
	calls   int
	waited  sync.Once
}

func (p *Pool) take() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the pool is closed")
	}
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		w := p.idle[last]
		p.idle = p.idle[:last]
		if !ended(w.command.Process.Pid) {
			return w, nil
		}
		w.end() // somebody killed it, which is no fault of this call
	}
	//nolint:noctx // our own binary; it outlives the call
	command := exec.Command(p.binary, argument, strconv.FormatInt(p.config.Memory, 10), strconv.Itoa(p.config.Message))
	command.Dir, command.Env = p.dir, []string{}
	w := &process{command: command, stderr: &tail{}}
	command.Stderr = w.stderr
	command.SysProcAttr = attributes()
	var err error
	if w.stdin, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	if w.stdout, err = command.StdoutPipe(); err != nil {
		return nil, err
	}
	return w, command.Start()
}

func (p *Pool) give(w *process) {
	w.calls++
	p.mu.Lock()
	if !p.closed && w.calls < p.config.Calls {
		p.idle = append(p.idle, w)
		w = nil
	}
	p.mu.Unlock()
	if w != nil {
		w.end()
	}
}

func (w *process) kill() {
	_ = w.command.Process.Kill()
}

// end kills the process and waits for it.
func (w *process) end() {
	w.waited.Do(func() {
		w.kill()
		_ = w.command.Wait()
	})
}

// lastWords is what the process said in the end, in one line.
func (w *process) lastWords() string {
	line, _, _ := strings.Cut(strings.TrimSpace(w.stderr.String()), "\n")
	if line == "" {
		return "it said nothing"
	}
	return line
}

// tail keeps the beginning of what a process says: a crash begins with its reason.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4 << 10
	t.buf.Write(text[:min(len(text), max(0, most-t.buf.Len()))])
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
