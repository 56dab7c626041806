package works

import (
	"bytes"
	"encoding/json"
	"hash/maphash"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/lru"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packing"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// manifest is what is read of the text of a manifest.
type manifest struct {
	kind            schema.GroupVersionKind
	namespace, name string
	hash, bare      transform.Hash
	size            int
	withdrawn       bool
	source          types.UID
}

// Manifests caches what was read of texts: the same texts are in many mailboxes, and the event of
// each write to a work has all of its texts. A text is recognized by a hash, which is much faster
// than parsing it. It is safe for concurrent use.
type Manifests struct {
	seed  maphash.Seed
	known *lru.Cache // manifest by text
}

// text identifies a text. With a seed of this process, 64 bits collide neither by accident nor by
// intent.
type text struct {
	hash   uint64
	length int
}

// NewManifests returns a cache of at most that many texts, at about 300 bytes each.
func NewManifests(most int) *Manifests {
	return &Manifests{seed: maphash.MakeSeed(), known: lru.New(most)}
}

// read parses the text of a manifest.
func (m *Manifests) read(raw []byte) manifest {
	key := m.key(raw)
	if known, ok := m.known.Get(key); ok {
		if known, ok := known.(manifest); ok {
			return known
		}
	}
	read := readManifest(raw)
	m.known.Add(key, read)
	return read
}

func (m *Manifests) key(raw []byte) text { return text{maphash.Bytes(m.seed, raw), len(raw)} }

// head is what is read of a manifest.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`

		Annotations struct {
			Withdrawn string `json:"starling.io/withdrawn"`
			Source    string `json:"starling.io/source-generation"`
		} `json:"annotations"`
	} `json:"metadata"`
}

func readManifest(raw []byte) manifest {
	var h head
	_ = json.Unmarshal(raw, &h) // what is no object has no identity, is not desired, and is removed
	gv, _ := schema.ParseGroupVersion(h.APIVersion)
	var bare transform.Hash
	if bytes.Contains(raw, []byte(controlv1alpha1.AnnotationSourceGeneration)) {
		var obj map[string]any
		if kjson.Unmarshal(raw, &obj) == nil {
			bare, _ = transform.BareOf(obj) // what was decoded can be encoded
		}
	}
	source, _ := corestatus.ParseSource(h.Metadata.Annotations.Source)
	return manifest{
		kind:      schema.GroupVersionKind{Group: one(gv.Group), Version: one(gv.Version), Kind: one(h.Kind)},
		namespace: one(h.Metadata.Namespace),
		name:      one(h.Metadata.Name),
		hash:      transform.HashOf(raw),
		bare:      bare,
		size:      len(raw) + packing.Overhead,
		withdrawn: h.Metadata.Annotations.Withdrawn == "true",
		source:    types.UID(one(string(source.UID))),
	}
}
