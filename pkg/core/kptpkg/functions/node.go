package functions

import (
	"slices"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// content is what stands behind documents and aliases.
func content(n *yaml.Node) *yaml.Node {
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

// get returns the value at a path of fields; nil if it is not there.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		n = content(n)
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		i := indexOf(n, name)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return content(n)
}

// indexOf returns where a field's name is in the content of a mapping, -1 if nowhere.
func indexOf(n *yaml.Node, name string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// text is the value of a scalar; "" for anything else, and for null.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// isNull tells whether there is nothing.
func isNull(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// stringNode is a string, however it must be written.
func stringNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// setString makes a node a string, and keeps its comments and, where that is possible, its quotes.
func setString(n *yaml.Node, value string) {
	n.Kind, n.Tag, n.Value, n.Content, n.Alias, n.Anchor = yaml.ScalarNode, "!!str", value, nil, nil, ""
	n.Style &= yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
}

// setScalar makes a node what is written: 3 is a number, unless the node was a string in quotes.
func setScalar(n *yaml.Node, value string) {
	quoted := n.Kind == yaml.ScalarNode && n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
	setString(n, value)
	if !quoted {
		n.Tag = plainTag(value)
	}
}

// plainTag is the type that a value has when it is written without quotes.
func plainTag(value string) string {
	var parsed yaml.Node
	if err := yaml.Unmarshal([]byte(value), &parsed); err != nil {
		return "!!str"
	}
	scalar := content(&parsed)
	if scalar == nil || scalar.Kind != yaml.ScalarNode || scalar.Style != 0 || scalar.Value != value {
		return "!!str"
	}
	switch tag := scalar.ShortTag(); tag {
	case "!!int", "!!float", "!!bool":
		return tag
	}
	return "!!str"
}

// put sets a field of a mapping, at its end if it is new.
func put(n *yaml.Node, name string, value *yaml.Node) {
	if i := indexOf(n, name); i >= 0 {
		n.Content[i+1] = value
		return
	}
	n.Content = append(n.Content, stringNode(name), value)
	if len(n.Content) == 2 {
		n.Style &^= yaml.FlowStyle // of {}
	}
}

// remove removes a field of a mapping.
func remove(n *yaml.Node, name string) bool {
	if n == nil || n.Kind != yaml.MappingNode {
		return false
	}
	i := indexOf(n, name)
	if i < 0 {
		return false
	}
	n.Content = slices.Delete(n.Content, i, i+2)
	return true
}

// ensureMapping returns the mapping at a path, made if it is not there; nil if something else is in its place.
func ensureMapping(n *yaml.Node, path ...string) *yaml.Node {
	n = content(n)
	for _, name := range path {
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		next := get(n, name)
		if isNull(next) {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			put(n, name, next)
		}
		n = next
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	return n
}

// patch makes one tree mean what another means, and changes no more than it must: comments, order and style stay.
func patch(to, from *yaml.Node) {
	to, from = content(to), content(from)
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

// replace puts a value in place of another; comments stay.
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
	kept := to.Content[:0]
	for i := 0; i+1 < len(to.Content); i += 2 {
		name := to.Content[i].Value
		if value, ok := wanted[name]; ok {
			patch(to.Content[i+1], value)
			delete(wanted, name)
			kept = append(kept, to.Content[i], to.Content[i+1])
		}
	}
	to.Content = kept
	for i := 0; i+1 < len(from.Content); i += 2 {
		if value, ok := wanted[from.Content[i].Value]; ok {
			to.Content = append(to.Content, yaml.CopyYNode(from.Content[i]), yaml.CopyYNode(value))
			if len(to.Content) == 2 {
				to.Style &^= yaml.FlowStyle
			}
		}
	}
}

// patchSequence matches elements by name if all have one, else by place.
func patchSequence(to, from *yaml.Node) {
	before := map[string]*yaml.Node{}
	named := true
	for _, n := range to.Content {
		name := text(get(n, "name"))
		if _, twice := before[name]; name == "" || twice {
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
			name := text(get(n, "name"))
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
