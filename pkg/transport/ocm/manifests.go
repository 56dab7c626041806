package ocm

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// manifest is what is read of the text of a manifest.
type manifest struct {
	kind            schema.GroupVersionKind
	namespace, name string
	hash, bare      transform.Hash
	size            int
	withdrawn       bool
}

// manifests remembers what was read of texts: the same ones are in many mailboxes, and each write to a work brings back all that it
// holds. A text is known again by a hash that is much faster than reading it. It is safe for concurrent use.
type manifests struct {
	seed maphash.Seed
	most int // of texts that are remembered in each of the two

	mu sync.Mutex
	// What was read lately, and before that. When lately is full it takes the place of before, so what is in use stays.
	lately, before map[text]manifest
}

// text stands for a text: 64 bits with a seed of this process do not meet by accident nor by intent.
type text struct {
	hash   uint64
	length int
}

// newManifests returns one that remembers at most 131,072 texts, at about 200 bytes each.
func newManifests() *manifests {
	return &manifests{seed: maphash.MakeSeed(), most: 1 << 16, lately: map[text]manifest{}}
}

// read returns what the text of a manifest says.
func (m *manifests) read(raw []byte) manifest {
	key := m.key(raw)
	if known, ok := m.recall(key); ok {
		return known
	}
	read := readManifest(raw)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(key, read)
	return read
}

func (m *manifests) key(raw []byte) text { return text{maphash.Bytes(m.seed, raw), len(raw)} }

func (m *manifests) recall(key text) (manifest, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.lately[key]; ok {
		return known, true
	}
	known, ok := m.before[key]
	if ok {
		m.keep(key, known)
	}
	return known, ok
}

func (m *manifests) keep(key text, read manifest) {
	if len(m.lately) >= m.most {
		m.lately, m.before = map[text]manifest{}, m.lately
	}
	m.lately[key] = read
}

// head is what is read of a manifest.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`

		Annotations struct {
			Withdrawn string `json:"starling.io/withdrawn"`
		} `json:"annotations"`
	} `json:"metadata"`
}

func readManifest(raw []byte) manifest {
	var h head
	_ = json.Unmarshal(raw, &h) // what is no object has no identity, is not desired, and goes
	gv, _ := schema.ParseGroupVersion(h.APIVersion)
	var bare transform.Hash
	if bytes.Contains(raw, []byte(controlv1alpha1.AnnotationSourceGeneration)) {
		var obj map[string]any
		if kjson.Unmarshal(raw, &obj) == nil {
			bare, _ = transform.BareOf(obj) // what was decoded can be encoded
		}
	}
	return manifest{
		kind:      schema.GroupVersionKind{Group: one(gv.Group), Version: one(gv.Version), Kind: one(h.Kind)},
		namespace: one(h.Metadata.Namespace),
		name:      one(h.Metadata.Name),
		hash:      transform.HashOf(raw),
		bare:      bare,
		size:      len(raw) + packing.Overhead,
		withdrawn: h.Metadata.Annotations.Withdrawn == "true",
	}
}
