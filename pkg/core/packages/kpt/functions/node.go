package functions

import (
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// elements returns the elements of a list; nil for other nodes.
func elements(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// isNull reports whether a node is nil or null.
func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// stringNode returns a string node. The encoder quotes it if necessary.
func stringNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// setString sets a node to a string. It retains the comments and, if possible, the quotes of the
// node.
func setString(n *yaml.Node, value string) {
	n.Kind, n.Tag, n.Value, n.Content, n.Alias, n.Anchor = yaml.ScalarNode, "!!str", value, nil, nil, ""
	n.Style &= yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
}

// setScalar sets a node to a scalar of the type that the value has in YAML: 3 is a number, unless
// the node was a quoted string.
func setScalar(n *yaml.Node, value string) {
	quoted := n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	setString(n, value)
	if !quoted {
		n.Tag = plainTag(value)
	}
}

// plainTag returns the type of an unquoted value.
func plainTag(value string) string {
	var parsed yaml.Node
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil {
		return "!!str"
	}
	scalar := kpt.Content(&parsed)
	if scalar == nil || scalar.Kind != yaml.ScalarNode || scalar.Style != 0 || scalar.Value != value {
		return "!!str"
	}
	switch tag := scalar.ShortTag(); tag {
	case "!!int", "!!float", "!!bool":
		return tag
	}
	return "!!str"
}

// ensureMapping returns the mapping at a path, and creates it if it does not exist; nil if there is
// another type of node.
func ensureMapping(n *yaml.Node, path ...string) *yaml.Node {
	n = kpt.Content(n)
	for _, name := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		next := kpt.Get(n, name)
		if isNull(next) {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			kpt.Set(n, name, next)
		}
		n = next
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	return n
}

// patch makes one tree equal to another with minimal changes. It retains comments, order and style.
func patch(to, from *yaml.Node) {
	to, from = kpt.Content(to), kpt.Content(from)
	switch {
	case to.Kind != from.Kind:
		replace(to, from)
	case to.Kind == yaml.MappingNode:
		patchMapping(to, from)
	case to.Kind == yaml.SequenceNode:
		patchSequence(to, from)
	case to.Value != from.Value || to.ShortTag() != from.ShortTag():
		replace(to, from)
	}
}

// replace replaces a value and retains its comments.
func replace(to, from *yaml.Node) {
	head, line, foot := to.HeadComment, to.LineComment, to.FootComment
	*to = *yaml.CopyYNode(from)
	to.HeadComment, to.LineComment, to.FootComment = head, line, foot
}

func patchMapping(to, from *yaml.Node) {
	wanted := make(map[string]*yaml.Node, len(from.Content)/2)
	for i := 0; i+1 < len(from.Content); i += 2 {
		wanted[from.Content[i].Value] = from.Content[i+1]
	}
	remaining := to.Content[:0]
	for i := 0; i+1 < len(to.Content); i += 2 {
		name := to.Content[i].Value
		if value, ok := wanted[name]; ok {
			patch(to.Content[i+1], value)
			delete(wanted, name)
			remaining = append(remaining, to.Content[i], to.Content[i+1])
		}
	}
	to.Content = remaining
	for i := 0; i+1 < len(from.Content); i += 2 {
		if value, ok := wanted[from.Content[i].Value]; ok {
			kpt.Set(to, from.Content[i].Value, yaml.CopyYNode(value))
		}
	}
}

// patchSequence matches elements by name if all have one, otherwise by index.
func patchSequence(to, from *yaml.Node) {
	before := map[string]*yaml.Node{}
	named := true
	for _, n := range to.Content {
		name := kpt.TextOf(kpt.Get(n, "name"))
		if _, duplicate := before[name]; name == "" || duplicate {
			named = false
			break
		}
		before[name] = n
	}
	out := make([]*yaml.Node, 0, len(from.Content))
	for i, n := range from.Content {
		var old *yaml.Node
		switch {
		case named:
			name := kpt.TextOf(kpt.Get(n, "name"))
			old = before[name]
			delete(before, name)
		case i < len(to.Content):
			old = to.Content[i]
		}
		if old == nil {
			out = append(out, yaml.CopyYNode(n))
			continue
		}
		patch(old, n)
		out = append(out, old)
	}
	to.Content = out
}
