package localfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Supervisor runs the components of one fleet, and restarts them. It is safe for concurrent use.
type Supervisor struct {
	layout  Layout
	clock   clock.Clock
	spawner *spawner
	dirty   chan struct{}

	changes keyedMutex

	mu       sync.Mutex
	children map[string]*child
	running  context.Context //nolint:containedctx // the lifetime of all children
	closed   bool
}

// NewSupervisor returns a supervisor whose children run until ctx ends.
func NewSupervisor(ctx context.Context, l Layout, c clock.Clock) *Supervisor {
	return &Supervisor{
		layout:   l,
		clock:    c,
		spawner:  newSpawner(),
		dirty:    make(chan struct{}, 1),
		children: map[string]*child{},
		running:  ctx,
	}
}

// keyedMutex is a mutex for each key.
type keyedMutex struct{ locks sync.Map }

// lock locks the mutex of key and returns the function that unlocks it.
func (k *keyedMutex) lock(key string) func() {
	l, _ := k.locks.LoadOrStore(key, &sync.Mutex{})
	mu := l.(*sync.Mutex) //nolint:forcetypeassert // nothing else is stored
	mu.Lock()
	return mu.Unlock
}

var errClosing = errors.New("the fleet is stopping")

// Ensure runs a component. It does nothing if the component runs with the same configuration, and
// stops it first if it runs with another one. A component in back-off starts at once: the caller
// may have repaired why it ended.
func (s *Supervisor) Ensure(c *Component) error {
	defer s.changes.lock(c.Name)()
	s.mu.Lock()
	old := s.children[c.Name]
	s.mu.Unlock()
	if old != nil {
		if reflect.DeepEqual(&old.component, c) && old.get().State != StateBackOff {
			return nil
		}
		old.stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing
	}
	ctx, cancel := context.WithCancel(s.running)
	n := &child{
		component: *c, log: s.layout.Log(c.Name), clock: s.clock, spawner: s.spawner, changed: s.markDirty,
		cancel: cancel, done: make(chan struct{}),
		status: RunStatus{Component: *c, State: StateStarting, Since: s.clock.Now()},
	}
	s.children[c.Name] = n
	go n.run(ctx)
	return nil
}

// Remove stops a component and forgets it. It does nothing if there is no such component. It blocks
// until the process has ended.
func (s *Supervisor) Remove(name string) {
	defer s.changes.lock(name)()
	s.mu.Lock()
	c := s.children[name]
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.stop()
	s.mu.Lock()
	delete(s.children, name)
	s.mu.Unlock()
	s.markDirty()
}

// Status returns the status of all components, sorted by name.
func (s *Supervisor) Status() []RunStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]RunStatus, 0, len(s.children))
	for _, name := range slices.Sorted(maps.Keys(s.children)) {
		all = append(all, s.children[name].get())
	}
	return all
}

// Close stops all components, stage by stage. It returns when all have ended.
func (s *Supervisor) Close() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.children))
	s.mu.Unlock()
	for _, stage := range []Stage{StageController, StageAPIServer, StageStorage} {
		var stopping sync.WaitGroup
		for _, c := range all {
			if c.component.Stage == stage {
				stopping.Go(c.stop)
			}
		}
		stopping.Wait()
	}
}

func (s *Supervisor) markDirty() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// maxLog is the size at which a log is rotated. One old file is kept.
const maxLog = 32 << 20

const logCheck = 30 * time.Second

// housekeeping records the processes when they change, so that a later command can kill those of a
// killed supervisor, and rotates the logs. It runs until ctx ends.
func (s *Supervisor) housekeeping(ctx context.Context) {
	log := klog.FromContext(ctx)
	logs := s.clock.After(logCheck)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
			if err := s.writeComponents(); err != nil {
				log.Error(err, "Cannot write the list of components")
			}
		case <-logs:
			logs = s.clock.After(logCheck)
			for _, c := range s.Status() {
				if err := rotateLog(s.layout.Log(c.Component.Name)); err != nil {
					log.Error(err, "Cannot rotate log; will retry", "component", c.Component.Name)
				}
			}
		}
	}
}

func (s *Supervisor) writeComponents() error {
	data, err := json.MarshalIndent(s.Status(), "", "  ")
	if err != nil {
		return err
	}
	return writeFile(s.layout.ComponentsFile(), data)
}

// rotateLog copies a log that is too large to <path>.1 and truncates it. Its writers append, so
// they continue at its start.
func rotateLog(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() < maxLog {
		return nil //nolint:nilerr // no log yet
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".1", data, 0o600); err != nil {
		return fmt.Errorf("copy log %q: %w", path, err)
	}
	return os.Truncate(path, 0)
}
