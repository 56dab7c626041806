package kptpkg

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	// maxNodes bounds the nodes of one file after all aliases are expanded: a few lines of anchors can stand for billions.
	maxNodes = 1_000_000
	// maxDepth bounds how deep nodes nest.
	maxDepth = 200
)

// ExcessiveError says that a file is YAML that stands for more than anybody should expand.
type ExcessiveError struct{ text string }

// Error says where and why.
func (e *ExcessiveError) Error() string { return e.text }

func excessive(format string, args ...any) error {
	return &ExcessiveError{fmt.Sprintf(format, args...)}
}

// Documents parses the YAML documents of a file. Comments and order stay with the nodes; empty documents are left out. What is too
// deep, or too much once aliases are expanded, is an ExcessiveError.
func Documents(content string) ([]*yaml.RNode, error) {
	decoder := yaml.NewDecoder(bytes.NewBufferString(content))
	budget := maxNodes
	var documents []*yaml.RNode
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		sizes := map[*yaml.Node]int{}
		size, err := expanded(&node, sizes, map[*yaml.Node]bool{}, 0)
		if err != nil {
			return nil, err
		}
		if budget -= size; budget < 0 {
			return nil, excessive("line %d: is more than %d nodes with its aliases expanded", node.Line, maxNodes)
		}
		document := yaml.NewRNode(&node)
		if document.IsNilOrEmpty() && (document.YNode() == nil || document.YNode().Kind != yaml.MappingNode) {
			continue
		}
		documents = append(documents, document)
	}
}

// expanded counts the nodes that a node stands for, up to a little more than is allowed.
func expanded(n *yaml.Node, sizes map[*yaml.Node]int, open map[*yaml.Node]bool, depth int) (int, error) {
	if size, known := sizes[n]; known {
		return size, nil
	}
	if depth > maxDepth {
		return 0, excessive("line %d: is nested deeper than %d", n.Line, maxDepth)
	}
	if open[n] {
		return 0, excessive("line %d: an alias stands for itself", n.Line)
	}
	open[n] = true
	defer delete(open, n)
	size := 1
	children := n.Content
	if n.Kind == yaml.AliasNode {
		children = []*yaml.Node{n.Alias}
	}
	for _, child := range children {
		s, err := expanded(child, sizes, open, depth+1)
		if err != nil {
			return 0, err
		}
		size = min(size+s, maxNodes+1)
	}
	sizes[n] = size
	return size, nil
}

// CheckFields returns an error if a field stands in a mapping twice: each reader would make of that what it likes.
func CheckFields(n *yaml.Node) error {
	const few = 8 // fields, which are compared faster than put into a map
	var seen map[string]*yaml.Node
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == yaml.MergeTag {
			continue
		}
		var first *yaml.Node
		if len(n.Content) <= 2*few {
			for j := 0; j < i && first == nil; j += 2 {
				if n.Content[j].Kind == yaml.ScalarNode && n.Content[j].Value == key.Value {
					first = n.Content[j]
				}
			}
		} else {
			if seen == nil {
				seen = make(map[string]*yaml.Node, len(n.Content)/2)
			}
			first = seen[key.Value]
			seen[key.Value] = key
		}
		if first != nil {
			return fmt.Errorf("line %d: field %q stands there twice; it is in line %d, too", key.Line, key.Value, first.Line)
		}
	}
	for _, child := range n.Content {
		if err := CheckFields(child); err != nil {
			return err
		}
	}
	return nil
}

// Text writes documents back as one file.
func Text(documents []*yaml.RNode) (string, error) {
	var out bytes.Buffer
	for i, document := range documents {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := document.String()
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}
