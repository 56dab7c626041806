package customize

import (
	"encoding/binary"
	"go/token"
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/transform"
)

// ClusterName is the property that holds the name of the cluster. Every cluster has it.
const ClusterName = "clusterName"

// Properties are the data of templates for one cluster. They are immutable and safe for concurrent
// use.
type Properties struct {
	values map[string]string
}

// NewProperties returns the properties of a cluster. If several sources have the same key, the last
// one is used. A key that is not a Go identifier is ignored: a template could not name it.
func NewProperties(cluster string, sources ...map[string]string) *Properties {
	p := &Properties{values: map[string]string{ClusterName: cluster}}
	for _, source := range sources {
		for key, value := range source {
			if token.IsIdentifier(key) {
				p.values[key] = value
			}
		}
	}
	return p
}

// Equal reports whether both have the same properties. Either may be nil, which means unknown.
func (p *Properties) Equal(other *Properties) bool {
	if p == nil || other == nil {
		return p == other
	}
	return maps.Equal(p.values, other.values)
}

// digest returns a hash of the values of some properties, or of all if keys is nil.
func (p *Properties) digest(keys []string) transform.Hash {
	if keys == nil {
		keys = slices.Sorted(maps.Keys(p.values))
	}
	var text []byte
	for _, key := range keys {
		value, ok := p.values[key]
		if !ok {
			text = append(text, 0)
			continue
		}
		text = append(text, 1)
		for _, part := range []string{key, value} {
			text = binary.AppendUvarint(text, uint64(len(part)))
			text = append(text, part...)
		}
	}
	return transform.HashOf(text)
}
