package diff

import (
	"maps"
	"slices"
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// What stands for the values of a Secret: the words are kubectl's.
const (
	masked       = "***"
	maskedBefore = "*** (before)"
	maskedAfter  = "*** (after)"
)

// mask returns how two versions of an object, of which one may be nil, are written without the values of Secrets; secret is false if
// there are none. Values that differ are masked differently. What is masked is also free of comments. The nodes are changed.
func mask(was, is *document) (before, after string, secret bool) {
	old, now := values(was), values(is)
	if old == nil && now == nil {
		return "", "", false
	}
	return hide(was, old, now, maskedBefore), hide(is, now, old, maskedAfter), true
}

// value is a node of a Secret's data, and what it says.
type value struct {
	node *yaml.Node
	says string
}

// values returns what is to be masked, by where it stands; nil if no Secret is there.
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
	// open are the nodes on the way here: an alias may stand for what it is in.
	open map[*yaml.Node]bool
}

// find looks for Secrets anywhere: in a list of objects, or in an object that is made of a template.
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
			f.take(n, at, 0)
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.find(n.Content[i+1], at+"\x00"+n.Content[i].Value)
		}
	default:
	}
}

// mergeDepth bounds how deep mappings merge others.
const mergeDepth = 10

// isSecret tells whether a mapping says that it is a Secret, itself or by what it merges.
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

// take notes the values of a Secret.
func (f *finder) take(n *yaml.Node, at string, depth int) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], followed(n.Content[i+1])
		switch key.Value {
		case "data", "stringData":
			f.data(child, at+"\x00"+key.Value, depth)
		case "metadata":
			f.applied(child, at)
		}
		for _, merged := range mergedInto(key, child, depth) {
			f.take(merged, at, depth+1)
		}
	}
}

// data notes the values of a mapping; if it is none, the whole is one.
func (f *finder) data(n *yaml.Node, at string, depth int) {
	if n.Kind != yaml.MappingNode {
		f.note(n, at)
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
		f.note(child, at+"\x00"+key.Value)
	}
}

// applied notes the copy of the whole object that kubectl apply keeps in an annotation.
func (f *finder) applied(metadata *yaml.Node, at string) {
	annotations, err := yaml.NewRNode(metadata).Pipe(yaml.Lookup("annotations", "kubectl.kubernetes.io/last-applied-configuration"))
	if err == nil && annotations != nil {
		f.note(followed(annotations.YNode()), at+"\x00last-applied")
	}
}

func (f *finder) note(n *yaml.Node, at string) {
	says, err := yaml.NewRNode(n).String()
	if n.Kind == yaml.ScalarNode {
		says, err = n.Value, nil
	}
	if err != nil {
		says = "" // shown as equal to what cannot be written either
	}
	f.found[at] = value{node: n, says: says}
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

// hide writes the document with masks for its values.
func hide(d *document, mine, other map[string]value, different string) string {
	if d == nil {
		return ""
	}
	for _, at := range slices.Sorted(maps.Keys(mine)) {
		says := masked
		if theirs, there := other[at]; there && theirs.says != mine[at].says {
			says = different
		}
		// In place, so that an anchor in the data is masked with what stands for it elsewhere.
		*mine[at].node = yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString, Value: says, Anchor: mine[at].node.Anchor}
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
