package functions

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg/schema"
)

// walker goes through the values of an object.
type walker struct {
	item   Item
	schema *schema.Schema
	looked bool
}

// walk calls visit with each scalar and list, with the key that it stands behind (nil in a list) and the path to it: names, and
// numbers in brackets. A list's elements come after it.
func (w *walker) walk(n, key *yaml.Node, path []string, visit func(key, n *yaml.Node, path []string) error) error {
	n = content(n)
	if n == nil {
		return nil
	}
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if err := w.walk(n.Content[i+1], n.Content[i], append(slices.Clip(path), n.Content[i].Value), visit); err != nil {
				return err
			}
		}
		return nil
	case n.Kind == yaml.SequenceNode:
		if err := visit(key, n, path); err != nil {
			return err
		}
		for i, element := range n.Content {
			if err := w.walk(element, nil, append(slices.Clip(path), "["+strconv.Itoa(i)+"]"), visit); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(key, n, path)
}

// typed returns what sets a value as what its kind's schema wants: "3" stays text where text is wanted. Where nothing is known, a
// value is what it looks like.
func (w *walker) typed(n *yaml.Node, path []string) func(string) {
	if !w.looked {
		w.looked, w.schema = true, schema.Builtin(w.item.APIVersion(), w.item.Kind())
	}
	if w.schema != nil && w.schema.TypeAt(path) == "string" {
		return func(value string) { setString(n, value) }
	}
	return func(value string) { setScalar(n, value) }
}

// fieldPath writes a path like spec.containers[0].image.
func fieldPath(path []string) string {
	var out strings.Builder
	for i, part := range path {
		if i > 0 && !strings.HasPrefix(part, "[") {
			out.WriteByte('.')
		}
		out.WriteString(part)
	}
	return out.String()
}
