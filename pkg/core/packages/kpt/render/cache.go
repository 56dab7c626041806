package render

import (
	"crypto/sha256"
	"encoding/binary"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Cache stores the parsed files and encoded objects of earlier renders, because the same package is
// rendered for many clusters, and drafts many times. Most of the time of a render is spent on
// parsing and encoding YAML. The cache never changes a result. The zero value is ready to use; nil
// stores nothing. It is not safe for concurrent use.
type Cache struct {
	files   generations[string, *parsed]
	written generations[writtenKey, string]
}

// cacheSize bounds each part of a cache, in bytes, approximately.
const cacheSize = 16 << 20

// parsed is a file as it was read. Its documents must not be changed.
type parsed struct {
	documents []*yaml.Node
	prints    []fingerprint
	parts     []string
	wide      bool
}

// parse returns the documents of a file. The caller owns them.
func (m *Cache) parse(content string) ([]*yaml.RNode, *parsed, error) {
	if m != nil {
		if p, known := m.files.get(content); known {
			documents := make([]*yaml.RNode, len(p.documents))
			for i, pristine := range p.documents {
				documents[i] = yaml.NewRNode(copyOf(pristine))
			}
			return documents, p, nil
		}
	}
	documents, err := kpt.Documents(kpt.WithoutCR(content))
	if err != nil {
		return nil, nil, err
	}
	p := &parsed{wide: kpt.IsWide(content), parts: kpt.Cut(content)}
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

// writtenKey holds everything that determines the encoding of an object.
type writtenKey struct {
	print      fingerprint
	wide, json bool
}

// write encodes an object with a fingerprint.
func (m *Cache) write(name string, node *yaml.RNode, sum fingerprint, wide bool) (string, error) {
	if m == nil {
		return kpt.Encode(name, node, wide)
	}
	key := writtenKey{sum, wide, kpt.IsJSON(name)}
	if text, known := m.written.get(key); known {
		return text, nil
	}
	text, err := kpt.Encode(name, node, wide)
	if err == nil {
		m.written.put(key, text, len(text))
	}
	return text, err
}

// generations is a map that drops entries that were not used for long. If the young half is full,
// it becomes the old half, and the entries of the old half that were not used since are dropped.
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
	if size += entry; size > cacheSize/4 {
		return
	}
	if g.size += size; g.young == nil || g.size > cacheSize/2 {
		g.young, g.old, g.size = map[K]sizedValue[V]{}, g.young, size
	}
	g.young[key] = sizedValue[V]{value, size - entry}
}

// nodeSize is the approximate size of a node in memory, with its values.
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

// copyOf copies a tree without aliases. It takes a tenth of the time that parsing takes.
func copyOf(n *yaml.Node) *yaml.Node {
	nodes := count(n)
	c := copier{nodes: make([]yaml.Node, nodes), children: make([]*yaml.Node, nodes-1)}
	return c.copy(n)
}

// copier allocates the nodes of a tree at once, instead of one by one.
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
	to.Content = c.children[:size:size] // an append reallocates
	c.children = c.children[size:]
	for i, child := range n.Content {
		to.Content[i] = c.copy(child)
	}
	return to
}

// fingerprint is a hash of an object. Objects with equal fingerprints are encoded equally.
type fingerprint [sha256.Size]byte

// fingerprintOf takes a tenth of the time that encoding the object takes.
func fingerprintOf(node *yaml.RNode) fingerprint {
	root := node.Document()
	if root.Kind == yaml.DocumentNode && root.HeadComment == "" && root.FootComment == "" {
		root = node.YNode() // a node that a function created has no document
	}
	return sha256.Sum256(appendNode(make([]byte, 0, 2048), root))
}

// appendNode appends all parts of a node that are encoded; its position is not.
func appendNode(to []byte, n *yaml.Node) []byte {
	if n == nil {
		return append(to, 0xff)
	}
	to = append(to, byte(n.Kind), byte(n.Style))
	// The tag is the same in its short form, in its long form, and if it is implied by the value.
	for _, text := range [...]string{n.ShortTag(), n.Value, n.Anchor, n.HeadComment, n.LineComment, n.FootComment} {
		to = binary.AppendUvarint(to, uint64(len(text)))
		to = append(to, text...)
	}
	to = binary.AppendUvarint(to, uint64(len(n.Content)))
	for _, child := range n.Content {
		to = appendNode(to, child)
	}
	if n.Kind == yaml.AliasNode {
		to = appendNode(to, n.Alias)
	}
	return to
}
