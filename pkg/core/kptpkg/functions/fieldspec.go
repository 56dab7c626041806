package functions

import (
	"errors"
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

// split returns the fields of the path.
func (s fieldSpec) split() []string {
	var out []string
	var field strings.Builder
	for i := 0; i < len(s.Path); i++ {
		switch {
		case s.Path[i] == '\\' && i+1 < len(s.Path) && s.Path[i+1] == '/':
			field.WriteByte('/')
			i++
		case s.Path[i] == '/':
			out = append(out, field.String())
			field.Reset()
		default:
			field.WriteByte(s.Path[i])
		}
	}
	return append(out, field.String())
}

// each calls visit with the values at the path. What is not there is made, as last of kind, if the spec says so.
func (s fieldSpec) each(root *yaml.Node, last yaml.Kind, visit func(*yaml.Node) error) error {
	return s.walk(root, s.split(), last, visit)
}

func (s fieldSpec) walk(n *yaml.Node, path []string, last yaml.Kind, visit func(*yaml.Node) error) error {
	n = content(n)
	if n == nil {
		return nil
	}
	if len(path) == 0 {
		return visit(n)
	}
	if n.Kind == yaml.SequenceNode {
		for _, child := range n.Content {
			if err := s.walk(child, path, last, visit); err != nil {
				return err
			}
		}
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	name, list := strings.CutSuffix(path[0], "[]")
	child := get(n, name)
	if isNull(child) {
		if !s.Create || list {
			return nil // elements of a list cannot be made up
		}
		child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if len(path) == 1 && last == yaml.ScalarNode {
			child = stringNode("")
		}
		put(n, name, child)
	}
	if list && child.Kind == yaml.SequenceNode && len(path) == 1 {
		for _, element := range child.Content {
			if err := visit(content(element)); err != nil {
				return err
			}
		}
		return nil
	}
	return s.walk(child, path[1:], last, visit)
}
