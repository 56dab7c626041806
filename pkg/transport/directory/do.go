package directory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// Do implements plugin.Plugin.
func (p *Plugin) Do(ctx context.Context, origin plugin.Origin, a *plan.Action) (plugin.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return plugin.Receipt{}, err
	}
	if p.handler == nil {
		return plugin.Receipt{}, errors.New("the plugin is not running")
	}
	for _, name := range []string{a.Mailbox, a.Name} { // they become part of a path
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return plugin.Receipt{}, fmt.Errorf("%q: %s", name, problems[0])
		}
	}
	root, err := p.open()
	if err != nil {
		return plugin.Receipt{}, err
	}
	defer root.Close()
	f := file{a.Mailbox, baseName(a.Wave, a.Name)}
	h, err := p.next(root, f, origin, a)
	switch {
	case err != nil:
		return plugin.Receipt{}, err
	case h == nil:
		return plugin.Receipt{}, p.remove(root, f)
	}
	recorded := h.hash()
	h.Recorded = recorded.String()
	text, err := encode(h)
	if err != nil {
		return plugin.Receipt{}, err
	}
	if err := put(root, f, text); err != nil {
		return plugin.Receipt{}, err
	}
	return plugin.Receipt{UID: h.UID, Generation: h.Generation, Recorded: recorded}, p.refresh(root, f)
}

// next returns what the file should contain, nil if it should be deleted.
func (p *Plugin) next(root *os.Root, f file, origin plugin.Origin, a *plan.Action) (*header, error) {
	if a.Verb == plan.Create {
		return p.created(root, f, origin, a)
	}
	text, err := root.ReadFile(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		if a.Verb == plan.Delete {
			return nil, nil
		}
		return nil, stale("is gone")
	}
	if err != nil {
		return nil, err
	}
	h, ok := decode(text)
	known := p.files[f]
	switch {
	case !ok || h.UID != a.UID || h.WDSUID != p.config.WDSUID:
		return nil, stale("is another one")
	case a.Verb == plan.Delete:
		return nil, nil
	case a.Verb == plan.Nudge:
		h.Nudges = a.Nudges
		return &h, nil
	case a.Verb != plan.Patch:
		return nil, fmt.Errorf("unknown verb %q", a.Verb)
	case known == nil || known.sum != transform.HashOf(text):
		return nil, stale("was edited since") // the positions are those of the reported work
	case h.Generation != a.Generation || h.Recorded != a.Recorded.String() && a.Recorded != (transform.Hash{}):
		return nil, stale("was written since")
	}
	manifests := make([][]byte, len(h.Objects))
	for i := range h.Objects {
		manifests[i] = h.Objects[i].manifest
	}
	for _, c := range a.Changes {
		switch c.Op {
		case plan.OpRemove:
			manifests = slices.Delete(manifests, c.At, c.At+1)
		case plan.OpReplace:
			manifests[c.At] = c.Object.JSON
		case plan.OpInsert:
			manifests = slices.Insert(manifests, c.At, c.Object.JSON)
		default:
			return nil, fmt.Errorf("unknown change %q", c.Op)
		}
	}
	if len(manifests) != len(a.After) {
		return nil, fmt.Errorf("the changes result in %d objects, want %d", len(manifests), len(a.After))
	}
	h.Generation++
	h.Binding = origin.Binding
	h.Objects = objects(a.After, manifests)
	return &h, nil
}

func (p *Plugin) created(root *os.Root, f file, origin plugin.Origin, a *plan.Action) (*header, error) {
	if _, known := p.mailboxes[f.mailbox]; !known {
		return nil, fmt.Errorf("directory %s does not exist", filepath.Join(p.config.Directory, f.mailbox))
	}
	if _, err := root.Lstat(f.path()); err == nil {
		return nil, fmt.Errorf("%s exists, but was not written for this Binding", filepath.Join(p.config.Directory, f.path()))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	manifests := make([][]byte, len(a.After))
	for i := range a.After {
		if a.After[i].Object == nil {
			return nil, fmt.Errorf("no content of %s", a.After[i].Ref)
		}
		manifests[i] = a.After[i].Object.JSON
	}
	return &header{
		UID: uuid.NewUUID(), Generation: 1, WDS: p.config.WDSName, WDSUID: p.config.WDSUID,
		Binding: origin.Binding, BindingUID: origin.BindingUID, Wave: a.Wave, Objects: objects(a.After, manifests),
	}, nil
}

func objects(entries []plan.Entry, manifests [][]byte) []object {
	objects := make([]object, len(entries))
	for i := range entries {
		e := &entries[i]
		objects[i] = newObject(e.Ref, e.Kind, e.Options, manifests[i])
	}
	return objects
}

func (p *Plugin) remove(root *os.Root, f file) error {
	if err := root.Remove(f.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	p.gone(f)
	if err := flush(root, f.mailbox); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func stale(text string) error { return fmt.Errorf("%w: it %s", plugin.ErrStale, text) }
