package kpt

import (
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Content returns the node behind documents and aliases.
func Content(n *yaml.Node) *yaml.Node {
	for n != nil {
		switch {
		case n.Kind == yaml.DocumentNode && len(n.Content) > 0:
			n = n.Content[0]
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		default:
			return n
		}
	}
	return nil
}

// Get returns the value at a path of fields; nil if there is none.
func Get(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		n = Content(n)
		i := indexOf(n, name)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return Content(n)
}

// Set sets a field of a mapping; nil removes it. A new field is added at the end.
func Set(n *yaml.Node, name string, value *yaml.Node) {
	switch i := indexOf(n, name); {
	case value == nil:
		Remove(n, name)
	case i >= 0:
		n.Content[i+1] = value
	default:
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: name}, value)
		if len(n.Content) == 2 {
			n.Style &^= yaml.FlowStyle // it was {}
		}
	}
}

// Remove removes a field of a mapping, and reports whether there was one.
func Remove(n *yaml.Node, name string) bool {
	i := indexOf(n, name)
	if i >= 0 {
		n.Content = slices.Delete(n.Content, i, i+2)
	}
	return i >= 0
}

// indexOf returns the index of the name of a field in the content of a mapping; -1 if there is no
// such field.
func indexOf(n *yaml.Node, name string) int {
	if n == nil || n.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// TextOf returns the value of a scalar; "" for null and all other nodes.
func TextOf(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == yaml.NodeTagNull {
		return ""
	}
	return n.Value
}
