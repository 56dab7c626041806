package dir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport"
)

// Marker is the name of the file that makes a directory a space.
const Marker = ".starling"

const (
	suffix = ".yaml"
	// propertiesFile holds the properties of a mailbox's cluster: a YAML map of strings.
	propertiesFile = ".properties"
	// between is the time between two looks at the directory. Our own writes are told of at once.
	between = 2 * time.Second
	// racy is how old a file must be for its time and size to tell that it did not change: file systems of removable disks
	// keep times in steps of two seconds.
	racy = 3 * time.Second
)

// Config is what a Plugin is made of. All fields but Clock are required.
type Config struct {
	// Directory holds the mailboxes. It need not exist yet.
	Directory string
	// WDSName is the name of the WDS; it identifies nothing.
	WDSName string
	// WDSUID identifies the WDS.
	WDSUID types.UID
	// Clock tells the time; nil is the real one.
	Clock clock.WithTicker
}

// Plugin is the transport plugin for directories.
type Plugin struct {
	config Config

	// mu makes everything that reads or writes the directory one after the other, so that the Handler hears of things in the
	// order in which they happened.
	mu        sync.Mutex
	handler   transport.Handler // nil when Run does not run
	mailboxes map[string]transport.Destination
	files     map[file]*state
}

var _ transport.Plugin = (*Plugin)(nil)

// file names a file: the one of a work in a mailbox.
type file struct{ mailbox, base string }

// state is what is known of a file.
type state struct {
	modified time.Time
	size     int64
	read     time.Time
	sum      transform.Hash
	work     *plan.Work // nil if the file is not ours
}

// New returns a Plugin. It does not look at the directory.
func New(config Config) (*Plugin, error) {
	if config.Directory == "" || config.WDSName == "" || config.WDSUID == "" {
		return nil, errors.New("dir: Directory, WDSName and WDSUID are required")
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Plugin{config: config, mailboxes: map[string]transport.Destination{}, files: map[file]*state{}}, nil
}

// Run implements transport.Plugin.
func (p *Plugin) Run(ctx context.Context, handler transport.Handler) error {
	p.mu.Lock()
	p.handler, p.mailboxes, p.files = handler, map[string]transport.Destination{}, map[file]*state{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.handler = nil
		p.mu.Unlock()
	}()
	ticker := p.config.Clock.NewTicker(between)
	defer ticker.Stop()
	synced, trouble := false, ""
	for {
		err := p.look()
		switch {
		case err != nil && err.Error() != trouble:
			trouble = err.Error()
			klog.FromContext(ctx).Error(err, "Cannot read the mailboxes; what was there stays as it was", "directory", p.config.Directory)
		case err == nil:
			trouble = ""
			if !synced {
				synced = true
				handler.OnReports(transport.ReportsNone)
				handler.OnSynced()
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look reads what changed in the directory and tells of it. What cannot be read stays as it was told.
func (p *Plugin) look() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Stat(filepath.Join(p.config.Directory, Marker)); err != nil {
		return fmt.Errorf("%s is no space: %w", p.config.Directory, err)
	}
	entries, err := os.ReadDir(p.config.Directory)
	if err != nil {
		return err
	}
	present := map[string]bool{}
	var failures []error
	for _, entry := range entries {
		name := entry.Name()
		if !entry.IsDir() || len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue
		}
		present[name] = true
		failures = append(failures, p.admit(name), p.lookInto(name))
	}
	for name := range p.mailboxes {
		if present[name] {
			continue
		}
		for _, f := range p.filesOf(name) {
			p.gone(f)
		}
		delete(p.mailboxes, name)
		p.handler.OnDestination(name, nil)
	}
	return errors.Join(failures...)
}

// admit tells of a mailbox and its properties, if that is news. Properties that cannot be read are not known.
func (p *Plugin) admit(mailbox string) error {
	var properties map[string]string
	text, err := os.ReadFile(filepath.Join(p.config.Directory, mailbox, propertiesFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil:
		if err = yaml.UnmarshalStrict(text, &properties); err != nil {
			err = fmt.Errorf("%s of %s: %w", propertiesFile, mailbox, err)
		}
	}
	now := transport.Destination{Accepted: true}
	if err == nil {
		now.Properties = customize.NewProperties(mailbox, properties)
	}
	before, known := p.mailboxes[mailbox]
	if !known || !before.Equal(now) {
		p.mailboxes[mailbox] = now
		p.handler.OnDestination(mailbox, &now)
	}
	return err
}

func (p *Plugin) lookInto(mailbox string) error {
	entries, err := os.ReadDir(filepath.Join(p.config.Directory, mailbox))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since; the next look tells
	}
	if err != nil {
		return err
	}
	present := map[string]bool{}
	var failures []error
	for _, entry := range entries {
		if entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), suffix) && !strings.HasPrefix(entry.Name(), ".") {
			present[entry.Name()] = true
			failures = append(failures, p.refresh(file{mailbox, entry.Name()}))
		}
	}
	for _, f := range p.filesOf(mailbox) {
		if !present[f.base] {
			p.gone(f)
		}
	}
	return errors.Join(failures...)
}

func (p *Plugin) filesOf(mailbox string) []file {
	files := slices.Collect(maps.Keys(p.files))
	return slices.DeleteFunc(files, func(f file) bool { return f.mailbox != mailbox })
}

// refresh reads a file if it may have changed, and tells of it.
func (p *Plugin) refresh(f file) error {
	info, err := os.Stat(p.path(f))
	if errors.Is(err, fs.ErrNotExist) {
		p.gone(f)
		return nil
	}
	if err != nil {
		return err
	}
	before := p.files[f]
	if before != nil && before.modified.Equal(info.ModTime()) && before.size == info.Size() && before.read.Sub(before.modified) > racy {
		return nil
	}
	text, err := os.ReadFile(p.path(f))
	if err != nil {
		return err
	}
	now := &state{modified: info.ModTime(), size: info.Size(), read: p.config.Clock.Now(), sum: transform.HashOf(text)}
	p.files[f] = now
	var told *plan.Work
	if before != nil {
		told = before.work
		if before.sum == now.sum {
			now.work = told
			return nil
		}
	}
	if h, ok := decode(text); ok && h.WDSUID == p.config.WDSUID && f.base == baseName(h.Wave, nameOf(f.base)) {
		now.work = h.work(f.mailbox, nameOf(f.base))
	}
	if told != nil || now.work != nil {
		p.handler.OnWork(told, now.work)
	}
	return nil
}

// gone notes that a file is not there any more.
func (p *Plugin) gone(f file) {
	before := p.files[f]
	delete(p.files, f)
	if before != nil && before.work != nil {
		p.handler.OnWork(before.work, nil)
	}
}

func (p *Plugin) path(f file) string { return filepath.Join(p.config.Directory, f.mailbox, f.base) }

// baseName is the name of the file of a work. It sorts by wave.
func baseName(wave int, work string) string { return fmt.Sprintf("%d-%s%s", wave, work, suffix) }

// nameOf returns the name of the work of a file.
func nameOf(base string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(base, suffix), "-")
	return name
}

// put writes a file as a whole.
func put(path string, text []byte) (err error) {
	directory := filepath.Dir(path)
	temporary, err := os.CreateTemp(directory, ".tmp-*") // readable by its owner alone: there may be a Secret in it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = bytes.NewReader(text).WriteTo(temporary)
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return err
	}
	return flush(directory)
}

// flush makes the names in a directory lasting.
func flush(directory string) error {
	d, err := os.Open(directory)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
