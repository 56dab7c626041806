package kpt

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// encodeJSON encodes a document as JSON. It retains the order of fields and the notation of values.
func encodeJSON(node *yaml.RNode) (string, error) {
	var out bytes.Buffer
	if err := appendJSON(&out, node.YNode(), ""); err != nil {
		return "", err
	}
	out.WriteByte('\n')
	return out.String(), nil
}

func appendJSON(out *bytes.Buffer, n *yaml.Node, indent string) error {
	const step = "  "
	switch {
	case n.Kind == yaml.AliasNode:
		return appendJSON(out, n.Alias, indent)
	case n.Kind == yaml.ScalarNode:
		return appendScalar(out, n)
	case len(n.Content) == 0 && n.Kind == yaml.MappingNode:
		out.WriteString("{}")
		return nil
	case len(n.Content) == 0:
		out.WriteString("[]")
		return nil
	}
	opening, closing, width := byte('['), byte(']'), 1
	if n.Kind == yaml.MappingNode {
		opening, closing, width = '{', '}', 2
	}
	out.WriteByte(opening)
	for i := 0; i+width <= len(n.Content); i += width {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n" + indent + step)
		if width == 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: a key that is not a string cannot be written as JSON", key.Line)
			}
			if err := appendText(out, key.Value); err != nil {
				return err
			}
			out.WriteString(": ")
		}
		if err := appendJSON(out, n.Content[i+width-1], indent+step); err != nil {
			return err
		}
	}
	out.WriteString("\n" + indent)
	out.WriteByte(closing)
	return nil
}

func appendScalar(out *bytes.Buffer, n *yaml.Node) error {
	switch n.ShortTag() {
	case yaml.NodeTagNull:
		out.WriteString("null")
		return nil
	case yaml.NodeTagBool, yaml.NodeTagInt, yaml.NodeTagFloat:
		if json.Valid([]byte(n.Value)) {
			out.WriteString(n.Value)
			return nil
		}
		var value any
		if err := n.Decode(&value); err != nil {
			return err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("line %d: %q cannot be written as JSON", n.Line, n.Value)
		}
		out.Write(text)
		return nil
	}
	return appendText(out, n.Value)
}

func appendText(out *bytes.Buffer, text string) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(text)
	out.Truncate(out.Len() - 1) // the newline
	return err
}
