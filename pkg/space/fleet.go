package space

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/utils/clock"
)

// Config holds what a Fleet needs from the program that uses it.
type Config struct {
	// Dir is the directory of the fleet.
	Dir string
	// Executable is the starling binary, which starts as every component of Kubernetes and OCM.
	Executable string
	// BinDir holds our controllers and kwok.
	BinDir string
	// Version is the version of the program, shown in messages.
	Version string
	// OCM holds OCM's manifests: directories cluster-manager, klusterlet and addon-crds.
	OCM fs.FS
	// Charts holds our Helm charts: directories wds and its.
	Charts fs.FS
	// Out gets progress and answers.
	Out io.Writer
	// Terminal says that Out is a terminal.
	Terminal bool
	// Clock tells the time; the real clock where nil.
	Clock clock.Clock
}

// Fleet is the fleet in one directory. Its methods are for one goroutine; a command makes its own.
type Fleet struct {
	cfg    Config
	layout Layout
	clock  clock.Clock
	state  *State
	out    *progress
}

// New returns the fleet in cfg.Dir, which need not exist.
func New(cfg Config) (*Fleet, error) {
	layout, err := NewLayout(cfg.Dir)
	if err != nil {
		return nil, err
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
	return &Fleet{cfg: cfg, layout: layout, clock: cfg.Clock, out: newProgress(cfg.Out, cfg.Terminal, cfg.Clock)}, nil
}

// Layout names the paths of the fleet.
func (f *Fleet) Layout() Layout { return f.layout }

// Load reads what the fleet consists of. It fails where there is none.
func (f *Fleet) Load() (*State, error) {
	state, err := loadState(f.layout)
	if errors.Is(err, errNoFleet) {
		return nil, fmt.Errorf("%w: run `starling up` first, or name its directory with --dir", err)
	}
	f.state = state
	return state, err
}

// lockCommands makes sure that no other command changes the fleet at the same time. The directory
// is made if needed.
func (f *Fleet) lockCommands() (unlock func(), err error) {
	lock, err := lockFile(f.layout.CommandLock())
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("another `starling` command is changing the fleet in %s: wait until it has ended", f.layout.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("use directory %s: %w", f.layout.Dir, err)
	}
	return func() { lock.Close() }, nil
}

// program returns the path of a program that lies beside starling.
func (f *Fleet) program(name string) (string, error) {
	path := filepath.Join(f.cfg.BinDir, name)
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is missing: build it with `make build`, or name its directory with --bin-dir", path)
	}
	return path, nil
}
