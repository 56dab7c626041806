package render

import (
	"crypto/sha256"
	"encoding/binary"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// fingerprint is of an object: two that are the same are written the same.
type fingerprint [sha256.Size]byte

// fingerprintOf costs a tenth of what writing the object costs.
func fingerprintOf(node *yaml.RNode) fingerprint {
	root := node.Document()
	if root.Kind == yaml.DocumentNode && root.HeadComment == "" && root.FootComment == "" {
		root = node.YNode() // what a function made anew has no document around it
	}
	return sha256.Sum256(appendNode(make([]byte, 0, 2048), root))
}

// appendNode appends all that is written of a node. Where it stood is not.
func appendNode(to []byte, n *yaml.Node) []byte {
	if n == nil {
		return append(to, 0xff)
	}
	to = append(to, byte(n.Kind), byte(n.Style))
	// A tag is the same in its short and its long form, and if it is left to be told from the value.
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
