package directory

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
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// Marker is the name of the file that makes a directory an ITS.
const Marker = ".starling"

const (
	suffix = ".yaml"
	// temporary begins the names of files that are being written.
	temporary = ".starling-tmp-"
	// propertiesFile holds the properties of a mailbox's cluster: a YAML map of strings.
	propertiesFile = ".properties"
	// scanInterval is the time between two scans of the directory. Our own writes are reported at
	// once.
	scanInterval = 2 * time.Second
	// racy is how old a file must be for its time and size to prove that it did not change: file
	// systems of removable disks store times in steps of two seconds.
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
	// Clock is the clock; nil is the real one.
	Clock clock.WithTicker
}

// Plugin is the transport plugin for directories.
type Plugin struct {
	config Config

	// mu serializes everything that reads or writes the directory, so that the Handler receives
	// changes in the order in which they happened.
	mu        sync.Mutex
	handler   plugin.Handler // nil when Run does not run
	mailboxes map[string]plugin.Destination
	files     map[file]*state
}

var _ plugin.Plugin = (*Plugin)(nil)

// file identifies a file: that of a work in a mailbox.
type file struct{ mailbox, base string }

// state is what is known of a file.
type state struct {
	modified time.Time
	size     int64
	read     time.Time
	sum      transform.Hash
	work     *plan.Work // nil if the file is not ours
}

// New returns a Plugin. It does not read the directory.
func New(config Config) (*Plugin, error) {
	if config.Directory == "" || config.WDSName == "" || config.WDSUID == "" {
		return nil, errors.New("dir: Directory, WDSName and WDSUID are required")
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Plugin{config: config, mailboxes: map[string]plugin.Destination{}, files: map[file]*state{}}, nil
}

// Run implements plugin.Plugin.
func (p *Plugin) Run(ctx context.Context, handler plugin.Handler) error {
	p.mu.Lock()
	p.handler, p.mailboxes, p.files = handler, map[string]plugin.Destination{}, map[file]*state{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.handler = nil
		p.mu.Unlock()
	}()
	ticker := p.config.Clock.NewTicker(scanInterval)
	defer ticker.Stop()
	synced, problem := false, ""
	for {
		err := p.scan()
		switch {
		case err != nil && err.Error() != problem:
			problem = err.Error()
			klog.FromContext(ctx).Error(err, "Cannot read the mailboxes; works known before stay as they were", "directory", p.config.Directory)
		case err == nil:
			problem = ""
			if !synced {
				synced = true
				handler.OnReports(plugin.ReportsNone)
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

// Restored implements plugin.Plugin. A person who carries files back from a backup carries them to
// the cluster as well.
func (p *Plugin) Restored() string { return "" }

// Works implements plugin.Plugin.
func (p *Plugin) Works(context.Context) (map[types.UID]int64, error) {
	if err := p.scan(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	works := map[types.UID]int64{}
	for _, s := range p.files {
		if s.work != nil && s.work.Foreign == (plan.WDS{}) {
			works[s.work.UID] = s.work.Generation
		}
	}
	return works, nil
}

// Content implements plugin.Plugin. A directory reports nothing.
func (*Plugin) Content(context.Context, *plan.Work, objref.Ref) (transform.Object, error) {
	return transform.Object{}, errors.ErrUnsupported
}

// open opens the directory, if it is an ITS. Everything is done in the directory that was opened,
// whatever happens to its name: a disk that is removed must not look like an empty one. No link
// leads out of it.
func (p *Plugin) open() (*os.Root, error) {
	root, err := os.OpenRoot(p.config.Directory)
	if err != nil {
		return nil, fmt.Errorf("%s is not an ITS: %w", p.config.Directory, err)
	}
	if _, err := root.Stat(Marker); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is not an ITS: %w", p.config.Directory, err), root.Close())
	}
	return root, nil
}

// scan reports what changed in the directory. What cannot be read stays as it was reported.
func (p *Plugin) scan() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	root, err := p.open()
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
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
		failures = append(failures, p.reportMailbox(root, name), p.scanMailbox(root, name))
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

// reportMailbox reports a mailbox and its properties, if they changed. Properties that cannot be
// read are not known.
func (p *Plugin) reportMailbox(root *os.Root, mailbox string) error {
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
	now := plugin.Destination{Accepted: true}
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

func (p *Plugin) scanMailbox(root *os.Root, mailbox string) error {
	entries, err := fs.ReadDir(root.FS(), mailbox)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is gone since; the next scan reports that
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

// sweep removes the file that an interrupted write left: it may hold Secrets, and belongs to
// nothing. The file of a write under way is younger.
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

// refresh reads a file if it may have changed, and reports its work.
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
	var reported *plan.Work
	if before != nil {
		reported = before.work
		if before.sum == now.sum {
			now.work = reported
			return nil
		}
	}
	if h, ok := decode(text); ok && h.WDSUID == p.config.WDSUID && f.base == baseName(h.Wave, nameOf(f.base)) {
		now.work = h.work(f.mailbox, nameOf(f.base))
	}
	if reported != nil || now.work != nil {
		p.handler.OnWork(reported, now.work)
	}
	return nil
}

// gone reports that a file does not exist any more.
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
	written, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // only its owner may read it: it may hold a Secret
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

// flush makes the names in a mailbox durable.
func flush(root *os.Root, mailbox string) error {
	d, err := root.Open(mailbox)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
