package functionhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// Server runs a program for each request. It is an http.Handler.
type Server struct {
	// Command is the program with its arguments.
	Command []string
	// Timeout bounds a run, and MaxBytes its input and its output.
	Timeout  time.Duration
	MaxBytes int64

	slots chan struct{}
}

// NewServer returns a Server that runs so many programs at once. Further requests wait.
func NewServer(command []string, atOnce int, timeout time.Duration, maxBytes int64) *Server {
	return &Server{Command: command, Timeout: timeout, MaxBytes: maxBytes, slots: make(chan struct{}, atOnce)}
}

// ServeHTTP implements http.Handler. The paths are /healthz, and /run for a POST with a
// ResourceList, whose answer is a functions.Container in JSON. It blocks until the program has
// ended.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/healthz":
		return
	case r.URL.Path != "/run":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	list, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.MaxBytes))
	if err != nil {
		http.Error(w, "read the input: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-r.Context().Done():
		return
	}
	answer, err := s.run(r.Context(), list)
	if err != nil {
		klog.FromContext(r.Context()).Error(err, "Cannot run the function", "program", s.Command[0])
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client has gone
}

// maxStderr is how much of the messages of a program is kept.
const maxStderr = 64 << 10

// run runs the program once. What it has started ends with it: its process group and, in a
// container that runs one program at a time, all other processes.
func (s *Server) run(ctx context.Context, list []byte) (*functions.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	command := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	command.Dir = "/"
	command.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp"}
	command.Stdin = bytes.NewReader(list)
	stdout, stderr := &bounded{most: int(s.MaxBytes)}, &bounded{most: maxStderr, cut: true}
	command.Stdout, command.Stderr = stdout, stderr
	ownGroup(command)
	command.WaitDelay = time.Second // of a child that has the pipes
	err := command.Run()
	if command.Process != nil {
		endGroup(command.Process.Pid)
	}
	if cap(s.slots) == 1 {
		endOthers()
	}
	if errors.Is(err, exec.ErrWaitDelay) { // the program has succeeded
		err = nil
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("the program took longer than %s", s.Timeout)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case stdout.exceeded:
		return nil, fmt.Errorf("the program wrote more than %d bytes", s.MaxBytes)
	case failed:
		return &functions.Container{Stdout: stdout.String(), Stderr: stderr.String(), ExitCode: max(1, exit.ExitCode())}, nil // -1: a signal
	case err != nil:
		return nil, fmt.Errorf("run the program: %w", err)
	}
	return &functions.Container{Stdout: stdout.String(), Stderr: stderr.String()}, nil
}

// errExceeded ends the copying of output that is too large.
var errExceeded = errors.New("too much output")

// bounded has the beginning of an output. With cut, the rest is dropped; otherwise it is an error.
type bounded struct {
	buffer        bytes.Buffer
	most          int
	cut, exceeded bool
}

func (b *bounded) String() string { return b.buffer.String() }

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	room := max(0, b.most-b.buffer.Len())
	b.exceeded = b.exceeded || len(text) > room
	if b.exceeded && !b.cut {
		return 0, errExceeded
	}
	b.buffer.Write(text[:min(len(text), room)])
	return len(text), nil
}
