package customize

import (
	"encoding/binary"
	"go/token"
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/transform"
)

// ClusterName is the property that every cluster has: its name.
const ClusterName = "clusterName"

// Properties are what templates know of one cluster. They are immutable and safe for concurrent use.
type Properties struct {
	values map[string]string
}

// NewProperties returns the properties of a cluster. Of sources that have a key in common, the later one counts. A key that is no
// Go identifier is no property: a template could not name it.
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

// Equal tells whether the two say the same. Either may be nil: not known.
func (p *Properties) Equal(other *Properties) bool {
	if p == nil || other == nil {
		return p == other
	}
	return maps.Equal(p.values, other.values)
}

// digest tells apart the values of some properties; of all if keys is nil.
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
