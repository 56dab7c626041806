package dir

import (
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
	"k8s.io/apimachinery/pkg/util/uuid"
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
	// temporary begins the names of files that are being written.
	temporary = ".starling-tmp-"
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

// open opens the directory, if it is a space. Everything is done in what was opened, whatever happens to the name: a disk that is taken
// away must not look like an empty one. No link leads out of it.
func (p *Plugin) open() (*os.Root, error) {
	root, err := os.OpenRoot(p.config.Directory)
	if err != nil {
		return nil, fmt.Errorf("%s is no space: %w", p.config.Directory, err)
	}
	if _, err := root.Stat(Marker); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is no space: %w", p.config.Directory, err), root.Close())
	}
	return root, nil
}

// list returns what is in a directory.
func list(root *os.Root, name string) ([]fs.DirEntry, error) {
	directory, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	entries, err := directory.ReadDir(-1)
	return entries, errors.Join(err, directory.Close())
}

// look reads what changed in the directory and tells of it. What cannot be read stays as it was told.
func (p *Plugin) look() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	root, err := p.open()
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := list(root, ".")
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
		failures = append(failures, p.admit(root, name), p.lookInto(root, name))
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
func (p *Plugin) admit(root *os.Root, mailbox string) error {
	var properties map[string]string
	text, err := root.ReadFile(filepath.Join(mailbox, propertiesFile))
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

func (p *Plugin) lookInto(root *os.Root, mailbox string) error {
	entries, err := list(root, mailbox)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone since; the next look tells
	}
	if err != nil {
		return err
	}
	present := map[string]bool{}
	var failures []error
	for _, entry := range entries {
		switch name := entry.Name(); {
		case !entry.Type().IsRegular():
		case strings.HasPrefix(name, temporary):
			failures = append(failures, p.sweep(root, entry, filepath.Join(mailbox, name)))
		case strings.HasSuffix(name, suffix) && !strings.HasPrefix(name, "."):
			present[name] = true
			failures = append(failures, p.refresh(root, file{mailbox, name}))
		}
	}
	for _, f := range p.filesOf(mailbox) {
		if !present[f.base] {
			p.gone(f)
		}
	}
	return errors.Join(failures...)
}

// sweep removes what a write left that was cut off: it may hold Secrets, and belongs to nothing. One that is under way is younger.
func (p *Plugin) sweep(root *os.Root, entry fs.DirEntry, name string) error {
	const abandoned = time.Hour
	info, err := entry.Info()
	if err == nil && p.config.Clock.Since(info.ModTime()) > abandoned {
		err = root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (p *Plugin) filesOf(mailbox string) []file {
	files := slices.Collect(maps.Keys(p.files))
	return slices.DeleteFunc(files, func(f file) bool { return f.mailbox != mailbox })
}

// refresh reads a file if it may have changed, and tells of it.
func (p *Plugin) refresh(root *os.Root, f file) error {
	info, err := root.Stat(f.path())
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
	text, err := root.ReadFile(f.path())
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

func (f file) path() string { return filepath.Join(f.mailbox, f.base) }

// baseName is the name of the file of a work. It sorts by wave.
func baseName(wave int, work string) string { return fmt.Sprintf("%d-%s%s", wave, work, suffix) }

// nameOf returns the name of the work of a file.
func nameOf(base string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(base, suffix), "-")
	return name
}

// put writes a file as a whole.
func put(root *os.Root, f file, text []byte) (err error) {
	name := filepath.Join(f.mailbox, temporary+string(uuid.NewUUID()))
	written, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // its owner's alone: there may be a Secret in it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(name)
		}
	}()
	_, err = written.Write(text)
	if err = errors.Join(err, written.Sync(), written.Close()); err != nil {
		return err
	}
	if err := root.Rename(name, f.path()); err != nil {
		return err
	}
	return flush(root, f.mailbox)
}

// flush makes the names in a mailbox lasting.
func flush(root *os.Root, mailbox string) error {
	d, err := root.Open(mailbox)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
