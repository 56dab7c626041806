package diff

import (
	"maps"
	"slices"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// Replacements of the values of a Secret, as in kubectl.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// mask returns two versions of an object, of which one may be nil, without the values of Secrets
// and without comments; secret is false if the object has no Secret. Values that differ get
// different masks. It changes the nodes.
func mask(was, is *document) (before, after string, secret bool) {
	old, now := values(was), values(is)
	if old == nil && now == nil {
		return "", "", false
	}
	return hide(was, old, now, maskedBefore), hide(is, now, old, maskedAfter), true
}

// value is a node in the data of a Secret, and its content.
type value struct {
	node    *yaml.Node
	content string
}

// values returns the values to mask, by position; nil if there is no Secret.
func values(d *document) map[string]value {
	if d == nil {
		return nil
	}
	f := finder{found: map[string]value{}, open: map[*yaml.Node]bool{}}
	f.find(d.node.YNode(), "")
	if !f.secret {
		return nil
	}
	return f.found
}

type finder struct {
	found  map[string]value
	secret bool
	// open are the ancestors of the current node. An alias may refer to one of them.
	open map[*yaml.Node]bool
}

// find finds Secrets at any position: also in a list of objects, or in a template of an object.
func (f *finder) find(n *yaml.Node, at string) {
	if n == nil || f.open[n] {
		return
	}
	f.open[n] = true
	defer delete(f.open, n)
	switch n.Kind {
	case yaml.AliasNode:
		f.find(n.Alias, at)
	case yaml.DocumentNode, yaml.SequenceNode:
		for i, child := range n.Content {
			f.find(child, at+"\x00"+strconv.Itoa(i))
		}
	case yaml.MappingNode:
		if isSecret(n, 0) {
			f.secret = true
			f.secretValues(n, at, 0)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.find(n.Content[i+1], at+"\x00"+n.Content[i].Value)
		}
	default:
	}
}

// mergeDepth bounds the depth of mappings that merge others by "<<".
const mergeDepth = 10

// isSecret reports whether a mapping has kind Secret, itself or in a mapping that it merges.
func isSecret(n *yaml.Node, depth int) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], followed(n.Content[i+1])
		if key.Value == "kind" && child.Value == "Secret" {
			return true
		}
		for _, merged := range mergedInto(key, child, depth) {
			if isSecret(merged, depth+1) {
				return true
			}
		}
	}
	return false
}

// secretValues records the values of a Secret.
func (f *finder) secretValues(n *yaml.Node, at string, depth int) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], followed(n.Content[i+1])
		switch key.Value {
		case "data", "stringData":
			f.data(child, at+"\x00"+key.Value, depth)
		case "metadata":
			f.applied(child, at)
		}
		for _, merged := range mergedInto(key, child, depth) {
			f.secretValues(merged, at, depth+1)
		}
	}
}

// data records the values of a mapping. Another type of node is recorded as one value.
func (f *finder) data(n *yaml.Node, at string, depth int) {
	if n.Kind != yaml.MappingNode {
		f.record(n, at)
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], followed(n.Content[i+1])
		if from := mergedInto(key, child, depth); from != nil {
			for _, merged := range from {
				f.data(merged, at, depth+1)
			}
			continue
		}
		f.record(child, at+"\x00"+key.Value)
	}
}

// applied records the copy of the whole object that kubectl apply stores in an annotation.
func (f *finder) applied(metadata *yaml.Node, at string) {
	annotations, err := yaml.NewRNode(metadata).Pipe(yaml.Lookup("annotations", "kubectl.kubernetes.io/last-applied-configuration"))
	if err == nil && annotations != nil {
		f.record(followed(annotations.YNode()), at+"\x00last-applied")
	}
}

func (f *finder) record(n *yaml.Node, at string) {
	content, err := yaml.NewRNode(n).String()
	if n.Kind == yaml.ScalarNode {
		content, err = n.Value, nil
	}
	if err != nil {
		content = "" // shown as equal to another value that cannot be encoded
	}
	f.found[at] = value{node: n, content: content}
}

func followed(n *yaml.Node) *yaml.Node {
	for range mergeDepth {
		if n.Kind != yaml.AliasNode {
			break
		}
		n = n.Alias
	}
	return n
}

// mergedInto returns the mappings that a "<<" merges.
func mergedInto(key, child *yaml.Node, depth int) []*yaml.Node {
	if key.Value != "<<" || depth > mergeDepth {
		return nil
	}
	if child.Kind == yaml.MappingNode {
		return []*yaml.Node{child}
	}
	var all []*yaml.Node
	for _, n := range child.Content {
		if n = followed(n); n.Kind == yaml.MappingNode {
			all = append(all, n)
		}
	}
	return all
}

// hide encodes the document with masks for its values.
func hide(d *document, mine, other map[string]value, different string) string {
	if d == nil {
		return ""
	}
	for _, at := range slices.Sorted(maps.Keys(mine)) {
		mask := masked
		if theirs, ok := other[at]; ok && theirs.content != mine[at].content {
			mask = different
		}
		// In place, so that aliases of an anchor in the data are masked, too.
		*mine[at].node = yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: mask, Anchor: mine[at].node.Anchor}
	}
	uncomment(d.node.YNode(), map[*yaml.Node]bool{})
	text, err := d.node.String()
	if err != nil {
		return masked + "\n"
	}
	return text
}

func uncomment(n *yaml.Node, seen map[*yaml.Node]bool) {
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	n.HeadComment, n.LineComment, n.FootComment = "", "", ""
	uncomment(n.Alias, seen)
	for _, child := range n.Content {
		uncomment(child, seen)
	}
}
