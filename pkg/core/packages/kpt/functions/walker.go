package functions

import (
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
)

// walker visits the values of an object.
type walker struct {
	item     Item
	schema   *schema.Schema
	resolved bool
}

// walk calls visit with each scalar and list, with its key (nil for an element of a list) and its
// path: names, and indexes in brackets. The elements of a list are visited after the list.
func (w *walker) walk(n, key *yaml.Node, path []string, visit func(key, n *yaml.Node, path []string) error) error {
	n = kpt.Content(n)
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

// typed returns a function that sets a value with the type of the schema: "3" stays a string where
// a string is required. Without a schema, the value has the type that it has in YAML.
func (w *walker) typed(n *yaml.Node, path []string) func(string) {
	if !w.resolved {
		w.resolved, w.schema = true, schema.Builtin(w.item.APIVersion(), w.item.Kind())
	}
	if w.schema != nil && w.schema.TypeAt(path) == "string" {
		return func(value string) { setString(n, value) }
	}
	return func(value string) { setScalar(n, value) }
}

// fieldPath returns a path like spec.containers[0].image.
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
