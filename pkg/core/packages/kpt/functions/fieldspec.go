package functions

import (
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// fieldSpec selects objects and a field in them that a function changes.
type fieldSpec struct {
	Group   string `yaml:"group"`
	Version string `yaml:"version"`
	Kind    string `yaml:"kind"`
	// Path has field names separated by slashes ("\/" is a slash in a name). It includes all
	// elements of lists on the way, with or without "[]".
	Path   string `yaml:"path"`
	Create bool   `yaml:"create"`

	// parts is the path, split once for all objects.
	parts []string
}

// specs returns field specs for some kinds, "group/Kind" or "Kind".
func specs(create bool, fieldPath string, kinds ...string) []fieldSpec {
	var out []fieldSpec
	for _, kind := range kinds {
		out = append(out, fieldSpec{Group: kpt.GroupOf(kind), Kind: path.Base(kind), Path: fieldPath, Create: create})
	}
	return out
}

func (s fieldSpec) matches(i Item) bool { return i.matches(s.Group, s.Version, s.Kind, "", "") }

// each calls visit with the values at the path. If the spec has create, a missing value is created,
// with the kind last.
func (s fieldSpec) each(root *yaml.Node, last yaml.Kind, visit func(*yaml.Node) error) error {
	return s.walk(root, s.parts, last, visit)
}

// eachText calls visit with the scalars at the paths of those field specs that match an object. If
// the spec has create, a missing value is created as an empty string. A value that is not a scalar
// is an error.
func eachText(item Item, fields []fieldSpec, visit func(n *yaml.Node, path string)) error {
	for _, spec := range fields {
		if !spec.matches(item) {
			continue
		}
		err := spec.each(item.root(), yaml.ScalarNode, func(n *yaml.Node) error {
			if n.Kind != yaml.ScalarNode {
				return fmt.Errorf("%s: %s is not a scalar", item, spec.Path)
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

// walk is each for the rest of the path.
func (s fieldSpec) walk(n *yaml.Node, path []string, last yaml.Kind, visit func(*yaml.Node) error) error {
	n = kpt.Content(n)
	switch {
	case n == nil:
		return nil
	case len(path) == 0:
		return visit(n)
	case n.Kind == yaml.SequenceNode:
		for _, child := range n.Content {
			if err := s.walk(child, path, last, visit); err != nil {
				return err
			}
		}
		return nil
	case n.Kind != yaml.MappingNode:
		return nil
	}
	name, list := strings.CutSuffix(path[0], "[]")
	child := kpt.Get(n, name)
	if isNull(child) {
		if !s.Create || list {
			return nil // elements of a list cannot be created
		}
		child = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		if len(path) == 1 && last == yaml.ScalarNode {
			child = stringNode("")
		}
		kpt.Set(n, name, child)
	}
	if list && len(path) == 1 {
		for _, element := range elements(child) {
			if err := visit(kpt.Content(element)); err != nil {
				return err
			}
		}
		return nil
	}
	return s.walk(child, path[1:], last, visit)
}
