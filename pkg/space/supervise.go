package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/klog/v2"
)

// supervisorInfo tells other commands where the supervisor is.
type supervisorInfo struct {
	PID       int    `json:"pid"`
	StartTime string `json:"startTime"`
	Socket    string `json:"socket"`
	Version   string `json:"version"`
}

// maxSocketPath is the longest path of a Unix socket that works on Linux and macOS.
const maxSocketPath = 100

// Supervise is the supervisor process of the fleet: it serves its socket and keeps the components
// running until ctx ends or a command asks it to close. It returns when all components are gone.
func (f *Fleet) Supervise(ctx context.Context) error {
	lock, err := lockFile(f.layout.SupervisorLock())
	if errors.Is(err, errLocked) {
		return fmt.Errorf("another supervisor serves %s", f.layout.Dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()

	ctx, stop := context.WithCancel(ctx)
	defer stop()

	// The children get a context of their own: they are stopped stage by stage, not all at once.
	childCtx, stopChildren := context.WithCancel(context.WithoutCancel(ctx))
	defer stopChildren()
	s := NewSupervisor(childCtx, f.layout, f.clock)

	socket, cleanup, err := f.socketPath()
	if err != nil {
		return err
	}
	defer cleanup()
	_ = os.Remove(socket) // of a supervisor that was killed; the lock says that it is gone
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: f.supervisorAPI(s, stop), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serve the supervisor's socket")
			stop()
		}
	}()
	if err := f.writeSupervisorInfo(socket); err != nil {
		return err
	}

	klog.FromContext(ctx).Info("Supervisor started", "dir", f.layout.Dir, "pid", os.Getpid())
	go s.housekeeping(ctx)
	go f.watchMembers(ctx, s)
	<-ctx.Done()

	klog.FromContext(ctx).Info("Supervisor stops its components")
	s.Close()
	_ = os.Remove(f.layout.ComponentsFile())
	_ = os.Remove(f.layout.SupervisorFile())
	// Only now may the command that asked for it learn that all is gone.
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		return server.Close()
	}
	return nil
}

func (f *Fleet) writeSupervisorInfo(socket string) error {
	started, err := startTime(os.Getpid())
	if err != nil {
		return err
	}
	info := supervisorInfo{PID: os.Getpid(), StartTime: started, Socket: socket, Version: f.cfg.Version}
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return writeFile(f.layout.SupervisorFile(), data)
}

// socketPath returns the path of the socket: in the fleet's directory, or, where that is too long
// for a socket, in a private directory elsewhere.
func (f *Fleet) socketPath() (path string, cleanup func(), err error) {
	path = filepath.Join(f.layout.Dir, "supervisor.sock")
	if len(path) <= maxSocketPath {
		return path, func() { _ = os.Remove(path) }, nil
	}
	parent := os.Getenv("XDG_RUNTIME_DIR")
	if parent == "" || len(parent) > maxSocketPath/2 {
		parent = os.TempDir()
	}
	dir, err := os.MkdirTemp(parent, "starling-")
	if err != nil {
		return "", nil, fmt.Errorf("make a directory for the supervisor's socket: %w", err)
	}
	return filepath.Join(dir, "s.sock"), func() { _ = os.RemoveAll(dir) }, nil
}

// supervisorAPI serves the socket. Only the user can open it: the directory is theirs alone.
func (f *Fleet) supervisorAPI(s *Supervisor, stop func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /components", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.Status())
	})
	mux.HandleFunc("PUT /components", func(w http.ResponseWriter, r *http.Request) {
		var c Component
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := s.Ensure(&c); err != nil { //nolint:contextcheck // the process outlives the request
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("DELETE /components/{name...}", func(_ http.ResponseWriter, r *http.Request) {
		s.Remove(r.PathValue("name"))
	})
	mux.HandleFunc("POST /stop", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(0))
		stop()
	})
	return mux
}
