package dir

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
	"github.com/starlinghq/starling/pkg/transport"
)

// Do implements transport.Plugin.
func (p *Plugin) Do(ctx context.Context, origin transport.Origin, a *plan.Action) (transport.Receipt, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return transport.Receipt{}, err
	}
	if p.handler == nil {
		return transport.Receipt{}, errors.New("the plugin does not run")
	}
	for _, name := range []string{a.Mailbox, a.Name} { // they become part of a path
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return transport.Receipt{}, fmt.Errorf("%q: %s", name, problems[0])
		}
	}
	root, err := p.open()
	if err != nil {
		return transport.Receipt{}, err
	}
	defer root.Close()
	f := file{a.Mailbox, baseName(a.Wave, a.Name)}
	h, err := p.next(root, f, origin, a)
	switch {
	case err != nil:
		return transport.Receipt{}, err
	case h == nil:
		return transport.Receipt{}, p.remove(root, f)
	}
	recorded := h.hash()
	h.Recorded = recorded.String()
	text, err := encode(h)
	if err != nil {
		return transport.Receipt{}, err
	}
	if err := put(root, f, text); err != nil {
		return transport.Receipt{}, err
	}
	return transport.Receipt{UID: h.UID, Generation: h.Generation, Recorded: recorded}, p.refresh(root, f)
}

// next returns what the file should hold, nil if it should go.
func (p *Plugin) next(root *os.Root, f file, origin transport.Origin, a *plan.Action) (*header, error) {
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
		return nil, stale("was edited since") // positions are those of what was told
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
		return nil, fmt.Errorf("the changes lead to %d objects, want %d", len(manifests), len(a.After))
	}
	h.Generation++
	h.Binding = origin.Binding
	h.Objects = objects(a.After, manifests)
	return &h, nil
}

func (p *Plugin) created(root *os.Root, f file, origin transport.Origin, a *plan.Action) (*header, error) {
	if _, known := p.mailboxes[f.mailbox]; !known {
		return nil, fmt.Errorf("there is no directory %s", filepath.Join(p.config.Directory, f.mailbox))
	}
	if _, err := root.Lstat(f.path()); err == nil {
		return nil, fmt.Errorf("%s is in the way; it was not written for this Binding", filepath.Join(p.config.Directory, f.path()))
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

func stale(text string) error { return fmt.Errorf("%w: it %s", transport.ErrStale, text) }
