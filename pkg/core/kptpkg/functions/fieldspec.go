package functions

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// fieldSpec says where in which objects a function finds what it changes.
type fieldSpec struct {
	Group   string `yaml:"group"`
	Version string `yaml:"version"`
	Kind    string `yaml:"kind"`
	// Path has fields with slashes between them ("\/" is a slash in a name). Lists on the way are gone through, "[]" or not.
	Path   string `yaml:"path"`
	Create bool   `yaml:"create"`
}

// specs are field specs for some kinds, "group/Kind" or "Kind".
func specs(create bool, path string, kinds ...string) []fieldSpec {
	var out []fieldSpec
	for _, kind := range kinds {
		group := ""
		if i := strings.LastIndex(kind, "/"); i >= 0 {
			group, kind = kind[:i], kind[i+1:]
		}
		out = append(out, fieldSpec{Group: group, Kind: kind, Path: path, Create: create})
	}
	return out
}

func (s fieldSpec) check() error {
	if s.Path == "" {
		return errors.New("functionConfig: path is required in each additional field")
	}
	return nil
}

func (s fieldSpec) matches(i Item) bool { return i.matches(s.Group, s.Version, s.Kind, "", "") }

// cutPath cuts the first field off a path.
func cutPath(path string) (field, rest string, more bool) {
	if !strings.Contains(path, `\/`) {
		return strings.Cut(path, "/")
	}
	var first strings.Builder
	for i := 0; i < len(path); i++ {
		switch {
		case path[i] == '\\' && i+1 < len(path) && path[i+1] == '/':
			first.WriteByte('/')
			i++
		case path[i] == '/':
			return first.String(), path[i+1:], true
		default:
			first.WriteByte(path[i])
		}
	}
	return first.String(), "", false
}

// each calls visit with the values at the path. What is not there is made, as last of kind, if the spec says so.
func (s fieldSpec) each(root *yaml.Node, last yaml.Kind, visit func(*yaml.Node) error) error {
	return s.walk(root, s.Path, true, last, visit)
}

// eachText calls visit with the texts at the paths of those field specs that are about an object. What is not there is made, as an empty
// text, if the spec says so. What is no text is an error.
func eachText(item Item, fields []fieldSpec, visit func(n *yaml.Node, path string)) error {
	for _, spec := range fields {
		if !spec.matches(item) {
			continue
		}
		err := spec.each(item.root(), yaml.ScalarNode, func(n *yaml.Node) error {
			if n.Kind != yaml.ScalarNode {
				return fmt.Errorf("%s: %s is no text", item, spec.Path)
			}
			visit(n, spec.Path)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// walk is each for what is left of the path, if there is more of it.
func (s fieldSpec) walk(n *yaml.Node, path string, more bool, last yaml.Kind, visit func(*yaml.Node) error) error {
	n = content(n)
	if n == nil {
		return nil
	}
	if !more {
		return visit(n)
	}
	if n.Kind == yaml.SequenceNode {
		for _, child := range n.Content {
			if err := s.walk(child, path, more, last, visit); err != nil {
				return err
			}
		}
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	name, rest, more := cutPath(path)
	name, list := strings.CutSuffix(name, "[]")
	child := get(n, name)
	if isNull(child) {
		if !s.Create || list {
			return nil // elements of a list cannot be made up
		}
		child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if !more && last == yaml.ScalarNode {
			child = stringNode("")
		}
		put(n, name, child)
	}
	if list && child.Kind == yaml.SequenceNode && !more {
		for _, element := range child.Content {
			if err := visit(content(element)); err != nil {
				return err
			}
		}
		return nil
	}
	return s.walk(child, rest, more, last, visit)
}
