package localfleet

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/utils/clock"
)

// Config has the dependencies of a Fleet.
type Config struct {
	// Dir is the directory of the fleet.
	Dir string
	// Executable is the path of the starling binary. Its hidden subcommands are the components of
	// Kubernetes and OCM.
	Executable string
	// BinDir is the directory of Starling's controllers and of kwok.
	BinDir string
	// UserDir is a directory of the user, for what all fleets of the user share: see reservePorts.
	// It need not exist. If empty, fleets that start at the same time may choose the same ports.
	UserDir string
	// Version is the version of the program, for messages.
	Version string
	// OCM has OCM's manifests, in the directories cluster-manager, klusterlet and addon-crds.
	OCM fs.FS
	// Charts has Starling's Helm charts, in the directories wds and its.
	Charts fs.FS
	// Out receives the progress and results of commands. If nil, they are discarded.
	Out io.Writer
	// Terminal is true if Out is a terminal.
	Terminal bool
	// Clock defaults to the real clock.
	Clock clock.Clock
}

// Fleet is the fleet in one directory. It is not safe for concurrent use: each command creates its
// own.
type Fleet struct {
	cfg    Config
	layout Layout
	clock  clock.Clock
	state  *State
	out    *progress
	// supervisor is the connection to the running supervisor; see connect.
	supervisor *supervisorClient
	// requestTimeout and stopTimeout are the constants of these names, or shorter in tests.
	requestTimeout, stopTimeout time.Duration
}

// New returns the fleet in cfg.Dir. The directory need not exist.
func New(cfg Config) (*Fleet, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("get the absolute path of %q: %w", cfg.Dir, err)
	}
	if cfg.Executable == "" {
		return nil, errors.New("the path of the starling binary is missing")
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Out == nil {
		cfg.Out = io.Discard
	}
	return &Fleet{
		cfg: cfg, layout: Layout{Dir: dir}, clock: cfg.Clock, requestTimeout: requestTimeout, stopTimeout: stopTimeout,
		out: &progress{out: cfg.Out, terminal: cfg.Terminal, clock: cfg.Clock, began: cfg.Clock.Now()},
	}, nil
}

// Layout returns the paths of the fleet.
func (f *Fleet) Layout() Layout { return f.layout }

// Load reads the state of the fleet from its directory. It returns an error if there is no fleet.
func (f *Fleet) Load() (*State, error) {
	state, damage, err := loadState(f.layout)
	if errors.Is(err, errNoFleet) {
		return nil, fmt.Errorf("%w. Run \"starling up\" first, or set the directory of the fleet with --dir", err)
	}
	if damage != nil {
		f.out.printf("warning: %v; its copy %s is used. \"starling up\" restores it", damage, f.layout.FleetCopy())
	}
	f.state = state
	return state, err
}

// restore reads the state of the fleet as loadState does, and repairs FleetFile. The caller holds
// the lock of commands.
func (f *Fleet) restore() error {
	state, damage, err := loadState(f.layout)
	if err != nil {
		return err
	}
	f.state = state
	if damage == nil {
		return nil
	}
	f.out.printf("Restored %s from its copy: %v", f.layout.FleetFile(), damage)
	return state.save(f.layout)
}

// lockCommands takes the lock of commands that change the fleet. It returns an error if another
// command has it. It creates the directory of the fleet.
func (f *Fleet) lockCommands() (unlock func(), err error) {
	lock, err := lockFile(f.layout.CommandLock())
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("another starling command is changing the fleet in %q: run this command when it has ended", f.layout.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock directory %q: %w", f.layout.Dir, err)
	}
	return func() { lock.Close() }, nil
}

// checkPrograms returns an error if a program that the components need does not exist.
func (f *Fleet) checkPrograms(components []string) error {
	for _, component := range components {
		name := programOf(component)
		if programs[name].subcommand {
			continue
		}
		path := filepath.Join(f.cfg.BinDir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("program %q not found: build it with \"make build\", or set its directory with --bin-dir", path)
		}
	}
	return nil
}
