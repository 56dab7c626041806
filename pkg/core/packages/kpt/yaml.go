package kpt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	// maxNodes bounds the nodes of one file after all aliases are expanded. A few lines with
	// anchors can expand to billions of nodes.
	maxNodes = 1_000_000
	// maxDepth bounds the depth of nested nodes.
	maxDepth = 200
)

// LineError is an error at a line of a file.
type LineError struct {
	// Line is counted from 1; 0 if it is unknown.
	Line   int
	Reason string
	// Excessive is true if YAML is nested too deeply, or too large after aliases are expanded.
	Excessive bool
}

// Error implements error.
func (e *LineError) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

// syntaxError converts an error of the YAML library, which has no type for it: only the text has
// the line, "yaml: line 3: reason".
func syntaxError(err error) error {
	e := &LineError{Reason: strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: ")}
	if rest, ok := strings.CutPrefix(e.Reason, "line "); ok {
		digits, reason, _ := strings.Cut(rest, ": ")
		if line, err := strconv.Atoi(digits); err == nil {
			e.Line, e.Reason = line, reason
		}
	}
	return e
}

// DecodeError returns the errors of decoding YAML into a type on one line.
func DecodeError(err error) error {
	if e, ok := errors.AsType[*yaml.TypeError](err); ok {
		return errors.New(strings.Join(e.Errors, "; "))
	}
	return err
}

// excerpt matches what errors of the YAML library about an excerpt say of it: line numbers, and
// the types of unknown fields. The library has no type for them.
var excerpt = regexp.MustCompile(`(?:yaml: )?line \d+: (?:field (\S+) not found in type \S+)?`)

// DecodeStrictly decodes a node into a type. Unknown fields are an error.
func DecodeStrictly(n *yaml.Node, into any) error {
	written, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(written))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		return errors.New(excerpt.ReplaceAllStringFunc(text.OneLine(DecodeError(err).Error()), func(found string) string {
			if field := excerpt.FindStringSubmatch(found)[1]; field != "" {
				return fmt.Sprintf("field %q is not supported", field)
			}
			return ""
		}))
	}
	return nil
}

func excessive(line int, format string, args ...any) error {
	return &LineError{Line: line, Reason: fmt.Sprintf(format, args...), Excessive: true}
}

// Documents parses the YAML documents of a file. The nodes retain comments and order; empty
// documents are left out. The error is a LineError.
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
			return nil, syntaxError(err)
		}
		sizes := map[*yaml.Node]int{}
		size, err := expanded(&node, sizes, map[*yaml.Node]bool{}, 0)
		if err != nil {
			return nil, err
		}
		if budget -= size; budget < 0 {
			return nil, excessive(node.Line, "is more than %d nodes with its aliases expanded", maxNodes)
		}
		document := yaml.NewRNode(&node)
		if document.IsNilOrEmpty() && (document.YNode() == nil || document.YNode().Kind != yaml.MappingNode) {
			continue
		}
		documents = append(documents, document)
	}
}

// expanded counts the nodes of a tree after aliases are expanded, up to maxNodes+1.
func expanded(n *yaml.Node, sizes map[*yaml.Node]int, open map[*yaml.Node]bool, depth int) (int, error) {
	if size, known := sizes[n]; known {
		return size, nil
	}
	if depth > maxDepth {
		return 0, excessive(n.Line, "is nested deeper than %d", maxDepth)
	}
	if open[n] {
		return 0, excessive(n.Line, "an alias refers to itself")
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

// CheckFields returns a LineError if a mapping has a duplicate field, which parsers interpret
// differently.
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
			return &LineError{Line: key.Line, Reason: fmt.Sprintf("field %q is duplicated; it is also in line %d", key.Value, first.Line)}
		}
	}
	for _, child := range n.Content {
		if err := CheckFields(child); err != nil {
			return err
		}
	}
	return nil
}

// Text encodes documents as one file.
func Text(documents []*yaml.RNode) (string, error) {
	texts := make([]string, len(documents))
	for i, document := range documents {
		var err error
		if texts[i], err = document.String(); err != nil {
			return "", err
		}
	}
	return Join(texts, false), nil
}
