package localfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Supervise runs the supervisor of the fleet: it serves its API on a socket and runs the components
// until ctx ends or a command stops it. It returns when all components have ended.
func (f *Fleet) Supervise(ctx context.Context) error {
	// A command holds the lock for a moment when it checks whether a supervisor runs.
	lock, err := lockWithin(ctx, f.layout.SupervisorLock(), lockTimeout)
	if errors.Is(err, errLocked) {
		return fmt.Errorf("another supervisor runs the fleet in %q", f.layout.Dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()

	ctx, stop := context.WithCancel(ctx)
	defer stop()

	// The children have another context, because Close stops them in stages and not all at once.
	childCtx, stopChildren := context.WithCancel(context.WithoutCancel(ctx))
	defer stopChildren()
	s := NewSupervisor(childCtx, f.layout, f.clock)

	info, err := newSupervisorInfo(f.cfg.Version)
	if err != nil {
		return err
	}
	listener, err := listenSocket(ctx, f.layout.Socket())
	if err != nil {
		return err
	}
	// A supervisor that responds has its file: with it, a command can end one that hangs later.
	if err := info.save(f.layout); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: supervisorAPI(s, info, stop), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Cannot serve the supervisor's socket; will stop")
			stop()
		}
	}()

	klog.FromContext(ctx).Info("Started supervisor", "dir", f.layout.Dir, "pid", os.Getpid())
	var background sync.WaitGroup
	background.Go(func() { s.housekeeping(ctx) })
	background.Go(func() { f.runStatusAgents(ctx, s) })
	<-ctx.Done()

	klog.FromContext(ctx).Info("Stopping all components")
	s.Close()
	background.Wait() // they write files
	_ = os.Remove(f.layout.ComponentsFile())
	_ = os.Remove(f.layout.SupervisorFile())
	// A long path of the socket is removed here: the listener knows another one.
	defer os.Remove(f.layout.Socket())
	// The request to stop ends last: then the command knows that all components have ended.
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(shutdown); err != nil {
		return server.Close()
	}
	return nil
}

// supervisorAPI returns the handler of the supervisor's API. Only the user can connect to it,
// because only the user can access the socket.
func supervisorAPI(s *Supervisor, info *supervisorInfo, stop func()) http.Handler {
	mux := http.NewServeMux()
	get := func(path string, read func() any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(read())
		})
	}
	get(infoPath, func() any { return info })
	get("/components", func() any { return s.Status() })
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
