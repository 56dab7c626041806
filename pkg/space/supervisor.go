package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Supervisor keeps the components of one fleet running. It is safe for concurrent use.
type Supervisor struct {
	layout  Layout
	clock   clock.Clock
	spawner *spawner
	dirty   chan struct{}

	changes keyedMutex

	mu       sync.Mutex
	children map[string]*child
	running  context.Context //nolint:containedctx // the life of all children
	closed   bool
}

// NewSupervisor returns a supervisor whose children live until ctx ends.
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

// lock waits for the lock of key and returns the function that gives it back.
func (k *keyedMutex) lock(key string) func() {
	l, _ := k.locks.LoadOrStore(key, &sync.Mutex{})
	mu := l.(*sync.Mutex) //nolint:forcetypeassert // nothing else is stored
	mu.Lock()
	return mu.Unlock
}

var errClosing = errors.New("the fleet is going down")

// Ensure makes a component run as described. One that runs so already is left alone; one that runs
// otherwise is stopped first.
func (s *Supervisor) Ensure(c *Component) error {
	defer s.changes.lock(c.Name)()
	s.mu.Lock()
	old := s.children[c.Name]
	s.mu.Unlock()
	if old != nil {
		if old.component.equal(c) {
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

// Remove stops a component and forgets it. One that is not there is no error.
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

// Status returns all components, by name.
func (s *Supervisor) Status() []RunStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]RunStatus, 0, len(s.children))
	for _, name := range slices.Sorted(maps.Keys(s.children)) {
		all = append(all, s.children[name].get())
	}
	return all
}

// Close stops all components, stage by stage, and returns when they are gone.
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

// maxLog is the size from which a log is cut; the part before stays in one file beside it.
const maxLog = 32 << 20

const logCheck = 30 * time.Second

// housekeeping writes down the processes whenever they change, so that a later command can end
// what a killed supervisor left, and keeps the logs bounded.
func (s *Supervisor) housekeeping(ctx context.Context) {
	log := klog.FromContext(ctx)
	logs := s.clock.After(logCheck)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.dirty:
			if err := s.writeComponents(); err != nil {
				log.Error(err, "Write the list of components")
			}
		case <-logs:
			logs = s.clock.After(logCheck)
			for _, c := range s.Status() {
				if err := cutLog(s.layout.Log(c.Component.Name)); err != nil {
					log.Error(err, "Cut a log", "component", c.Component.Name)
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

// cutLog empties a log that has become too long. Its writers append, so they go on at its start.
func cutLog(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() < maxLog {
		return nil //nolint:nilerr // no log yet
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".1", data, 0o600); err != nil {
		return fmt.Errorf("keep the old part: %w", err)
	}
	return os.Truncate(path, 0)
}
