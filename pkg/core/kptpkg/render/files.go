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

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
)

// source is a file with objects.
type source struct {
	documents []*document
	// parts are the bytes of the documents, where the file can be cut into them; each ends in a newline, and begins with the line "---"
	// if there is one. nil if it cannot be cut.
	parts []string
	wide  bool
}

// document is an object as it was read. print tells whether a function has changed it: that is cheaper than to write it twice.
type document struct {
	index int
	print fingerprint
}

// read reads the objects of all files. A file with documents that are no objects is left alone.
func (r *renderer) read() error {
	ignored, err := ignoreRules(r.files)
	if err != nil {
		return err
	}
	r.sources, r.next = map[string]*source{}, map[string]int{}
	for _, name := range r.files.Paths() {
		if !kptpkg.IsKRM(name) || ignored(name) {
			continue
		}
		if err := r.readFile(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (r *renderer) readFile(name string) error {
	nodes, file, err := r.memory.parse(r.files[name])
	if err != nil {
		return err
	}
	var objects []*object
	s := &source{wide: file.wide, parts: file.parts}
	for i, node := range nodes {
		if node.YNode().Kind != yaml.MappingNode {
			return nil // a list of values, say
		}
		mark := file.prints[i]
		if hasAlias(node.YNode()) {
			if err := node.DeAnchor(); err != nil {
				return err
			}
			mark = fingerprintOf(node)
		}
		item := functions.Item{Path: name, Index: i, Node: node}
		version, kind := item.APIVersion(), item.Kind()
		if version == "" && kind == "" {
			return nil // values of something else
		}
		if version == "" || kind == "" {
			return fmt.Errorf("document %d is no object: it has only one of apiVersion and kind", i+1)
		}
		if err := kptpkg.CheckFields(node.YNode()); err != nil {
			return err
		}
		d := &document{index: i, print: mark}
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

// order sorts the objects by file and place.
func (r *renderer) order() {
	slices.SortStableFunc(r.objects, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Index, b.Index))
	})
}

// duplicates refuses two objects of one package that are the same to an API server. What is never applied may be there twice.
func (r *renderer) duplicates() error {
	type identity struct{ pkg, group, kind, namespace, name string }
	seen := map[identity]string{}
	for _, o := range r.objects {
		if path.Base(o.Path) == kptpkg.KptfileName || o.Local() || o.Name() == "" {
			continue
		}
		id := identity{o.pkg, o.Group(), o.Kind(), o.Namespace(), o.Name()}
		if first, twice := seen[id]; twice {
			return fmt.Errorf("%s: %s %s is in %s, too", o.Path, id.kind, path.Join(id.namespace, id.name), first)
		}
		seen[id] = o.Path
	}
	return nil
}

// write returns the files with what functions changed in them.
func (r *renderer) write() (kptpkg.Files, error) {
	out := make(kptpkg.Files, len(r.files))
	maps.Copy(out, r.files)
	r.order()
	now := map[string][]*object{}
	for _, o := range r.objects {
		now[o.Path] = append(now[o.Path], o)
	}
	for name := range r.sources {
		if len(now[name]) == 0 {
			delete(out, name) // nothing is left
		}
	}
	for name, objects := range now {
		content, err := r.writeFile(name, objects)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = content
		if path.Base(name) == kptpkg.KptfileName && content != r.files[name] {
			if _, err := kptpkg.ParseKptfile(content); err != nil {
				return nil, fmt.Errorf("%s: a function left it broken: %w", name, err)
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
		mark := fingerprintOf(o.Node)
		same := s.has(o.origin) && o.origin.print == mark
		if same && s.parts != nil {
			parts = append(parts, s.parts[o.origin.index])
		} else {
			text, err := r.memory.write(name, o.Node, mark, s.wide)
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
		return "", errors.New("a JSON file holds one object")
	}
	var out strings.Builder
	for i, part := range parts {
		switch {
		case i > 0 && !kptpkg.StartsDocument(part):
			out.WriteString("---\n")
		case i == 0 && objects[0].origin != nil && objects[0].origin.index == 0 && s.parts != nil && kptpkg.StartsDocument(s.parts[0]) && !kptpkg.StartsDocument(part):
			out.WriteString("---\n") // as it was
		}
		out.WriteString(part)
	}
	return kptpkg.WithCR(out.String(), r.files[name]), nil
}

// has tells whether a document was read from this file.
func (s *source) has(d *document) bool {
	return d != nil && d.index < len(s.documents) && s.documents[d.index] == d
}
