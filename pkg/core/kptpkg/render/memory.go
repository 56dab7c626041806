package render

import (
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// Memory remembers the files and objects of renderings before: the same package is rendered for many places, and drafts many times.
// Reading and writing YAML is most of a rendering. What is remembered changes no result. The zero value is ready to use, nil remembers
// nothing; it is for one goroutine.
type Memory struct {
	files   generations[string, *parsed]
	written generations[writtenKey, string]
}

// memorySize bounds each kind of thing that is remembered, in bytes, about.
const memorySize = 16 << 20

// parsed is a file as it was read: the documents, which nobody may change.
type parsed struct {
	documents []*yaml.Node
	prints    []fingerprint
	parts     []string
	wide      bool
}

// parse reads the documents of a file. They belong to the caller.
func (m *Memory) parse(content string) ([]*yaml.RNode, *parsed, error) {
	if m != nil {
		if p, known := m.files.get(content); known {
			documents := make([]*yaml.RNode, len(p.documents))
			for i, pristine := range p.documents {
				documents[i] = yaml.NewRNode(copyOf(pristine))
			}
			return documents, p, nil
		}
	}
	documents, err := kptpkg.Documents(kptpkg.WithoutCR(content))
	if err != nil {
		return nil, nil, err
	}
	p := &parsed{wide: kptpkg.IsWide(content), parts: kptpkg.Cut(content)}
	simple, size := true, len(content)
	for _, document := range documents {
		simple = simple && !hasAlias(document.YNode())
		p.prints = append(p.prints, fingerprintOf(document))
		if m != nil && simple {
			size += count(document.Document()) * nodeSize
			p.documents = append(p.documents, copyOf(document.Document()))
		}
	}
	if m != nil && simple {
		m.files.put(content, p, size)
	}
	return documents, p, nil
}

// writtenKey is all that the text of an object follows from.
type writtenKey struct {
	print      fingerprint
	wide, json bool
}

// write writes an object with that fingerprint.
func (m *Memory) write(name string, node *yaml.RNode, mark fingerprint, wide bool) (string, error) {
	if m == nil {
		return kptpkg.Encode(name, node, wide)
	}
	key := writtenKey{mark, wide, kptpkg.IsJSON(name)}
	if text, known := m.written.get(key); known {
		return text, nil
	}
	text, err := kptpkg.Encode(name, node, wide)
	if err == nil {
		m.written.put(key, text, len(text))
	}
	return text, err
}

// generations is a map that forgets what was not used for long: when the young half is full, it becomes the old one, and what was old
// and not used since goes.
type generations[K comparable, V any] struct {
	young, old map[K]sizedValue[V]
	size       int
}

type sizedValue[V any] struct {
	value V
	size  int
}

func (g *generations[K, V]) get(key K) (V, bool) {
	if v, ok := g.young[key]; ok {
		return v.value, true
	}
	v, ok := g.old[key]
	if ok {
		g.put(key, v.value, v.size)
	}
	return v.value, ok
}

func (g *generations[K, V]) put(key K, value V, size int) {
	const entry = 128
	if size += entry; size > memorySize/4 {
		return
	}
	if g.size += size; g.young == nil || g.size > memorySize/2 {
		g.young, g.old, g.size = map[K]sizedValue[V]{}, g.young, size
	}
	g.young[key] = sizedValue[V]{value, size - entry}
}

// nodeSize is what a node takes in memory, with its values.
const nodeSize = 220

func count(n *yaml.Node) int {
	nodes := 1
	for _, child := range n.Content {
		nodes += count(child)
	}
	return nodes
}

// twin copies an object.
func twin(node *yaml.RNode) *yaml.RNode {
	if hasAlias(node.Document()) {
		return node.Copy()
	}
	return yaml.NewRNode(copyOf(node.Document()))
}

// copyOf copies a tree without aliases: a tenth of what reading it costs.
func copyOf(n *yaml.Node) *yaml.Node {
	nodes := count(n)
	c := copier{nodes: make([]yaml.Node, nodes), children: make([]*yaml.Node, nodes-1)}
	return c.copy(n)
}

// copier has the memory for a tree: one piece of it, and not one for each node.
type copier struct {
	nodes    []yaml.Node
	children []*yaml.Node
}

func (c *copier) copy(n *yaml.Node) *yaml.Node {
	to := &c.nodes[0]
	c.nodes = c.nodes[1:]
	*to = *n
	if n.Content == nil {
		return to
	}
	size := len(n.Content)
	to.Content = c.children[:size:size] // who appends to it gets other memory
	c.children = c.children[size:]
	for i, child := range n.Content {
		to.Content[i] = c.copy(child)
	}
	return to
}
