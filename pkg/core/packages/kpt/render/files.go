package render

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/manifests"
)

// source is a file with objects.
type source struct {
	documents []*document
	// parts are the bytes of the documents; nil if the file cannot be split. Each ends in a
	// newline, and begins with the line "---" if there is one.
	parts []string
	wide  bool
}

// document is an object as it was read. Its fingerprint detects changes by functions, which is
// cheaper than to encode the object again.
type document struct {
	index int
	print fingerprint
}

// read reads the objects of all files. Files without objects are left alone.
func (r *renderer) read() error {
	in := manifests.In(r.files)
	r.sources, r.next = map[string]*source{}, map[string]int{}
	for _, name := range r.files.Paths() {
		if !in(name) {
			continue
		}
		if err := r.readFile(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (r *renderer) readFile(name string) error {
	nodes, file, err := r.cache.parse(r.files[name])
	if err != nil {
		return err
	}
	kinds := make([]manifests.Document, len(nodes))
	for i, node := range nodes {
		item := functions.Item{Node: node}
		kinds[i] = manifests.Document{APIVersion: item.APIVersion(), Kind: item.Kind()}
	}
	if are, err := manifests.Objects(kinds); err != nil || !are {
		return err
	}
	var objects []*object
	s := &source{wide: file.wide, parts: file.parts}
	for i, node := range nodes {
		sum := file.prints[i]
		if hasAlias(node.YNode()) {
			if err := node.DeAnchor(); err != nil {
				return err
			}
			sum = fingerprintOf(node)
		}
		item := functions.Item{Path: name, Index: i, Node: node}
		if err := kpt.CheckFields(node.YNode()); err != nil {
			return err
		}
		d := &document{index: i, print: sum}
		s.documents = append(s.documents, d)
		objects = append(objects, &object{Item: item, pkg: r.files.PackageOf(name), origin: d})
	}
	if len(objects) == 0 {
		return nil
	}
	if len(s.parts) != len(s.documents) {
		s.parts = nil
	}
	r.sources[name], r.next[name] = s, len(objects)
	r.objects = append(r.objects, objects...)
	return nil
}

func hasAlias(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || slices.ContainsFunc(n.Content, hasAlias)
}

// order sorts the objects by file and index.
func (r *renderer) order() {
	slices.SortStableFunc(r.objects, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Index, b.Index))
	})
}

// duplicates rejects two objects of one package that have the same identity for an API server.
// Objects that are never applied may be duplicated.
func (r *renderer) duplicates() error {
	type identity struct{ pkg, group, kind, namespace, name string }
	seen := map[identity]string{}
	for _, o := range r.objects {
		if path.Base(o.Path) == kpt.KptfileName || o.Local() || o.Name() == "" {
			continue
		}
		id := identity{o.pkg, o.Group(), o.Kind(), o.Namespace(), o.Name()}
		if first, duplicate := seen[id]; duplicate {
			return fmt.Errorf("%s: %s %s is also in %s: remove one of the two; %s", o.Path, id.kind, path.Join(id.namespace, id.name), first, manifests.Advice)
		}
		seen[id] = o.Path
	}
	return nil
}

// write returns the files with the changes of functions.
func (r *renderer) write() (kpt.Files, error) {
	out := make(kpt.Files, len(r.files))
	maps.Copy(out, r.files)
	r.order()
	current := map[string][]*object{}
	for _, o := range r.objects {
		current[o.Path] = append(current[o.Path], o)
	}
	for name := range r.sources {
		if len(current[name]) == 0 {
			delete(out, name)
		}
	}
	for name, objects := range current {
		content, err := r.writeFile(name, objects)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = content
		if path.Base(name) == kpt.KptfileName && content != r.files[name] {
			if _, err := kpt.ParseKptfile(content); err != nil {
				return nil, fmt.Errorf("%s: a function made it invalid: %w", name, err)
			}
		}
	}
	if wrong := out.Check(); len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "; "))
	}
	return out, nil
}

func (r *renderer) writeFile(name string, objects []*object) (string, error) {
	s := r.sources[name]
	if s == nil {
		s = &source{}
	}
	changed := len(objects) != len(s.documents)
	parts := make([]string, 0, len(objects))
	for i, o := range objects {
		sum := fingerprintOf(o.Node)
		same := s.has(o.origin) && o.origin.print == sum
		if same && s.parts != nil {
			parts = append(parts, s.parts[o.origin.index])
		} else {
			text, err := r.cache.write(name, o.Node, sum, s.wide)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		changed = changed || !same || o.origin.index != i
	}
	if !changed {
		return r.files[name], nil
	}
	if path.Ext(name) == ".json" && len(parts) > 1 {
		return "", errors.New("a JSON file can hold one object only")
	}
	first := objects[0].origin
	marked := first != nil && first.index == 0 && s.parts != nil && kpt.StartsDocument(s.parts[0]) // as before
	return kpt.WithCR(kpt.Join(parts, marked), r.files[name]), nil
}

// has reports whether a document was read from this file.
func (s *source) has(d *document) bool {
	return d != nil && d.index < len(s.documents) && s.documents[d.index] == d
}
