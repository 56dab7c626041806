package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Hash is the hash of delivered content. 128 bits of SHA-256 are beyond collision by accident, and
// short enough to keep one for each object in each mailbox.
type Hash [16]byte

// HashOf returns the hash of these bytes.
func HashOf(raw []byte) Hash {
	sum := sha256.Sum256(raw)
	return Hash(sum[:len(Hash{})])
}

// String returns the hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String wrote; anything else gives false.
func ParseHash(s string) (Hash, bool) {
	var h Hash
	if len(s) != hex.EncodedLen(len(h)) {
		return Hash{}, false
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, false
	}
	return h, true
}

// Canonical encodes decoded JSON so that equal values give equal bytes: sorted keys, no space, HTML
// characters escaped, whole numbers without fraction. It is how API servers encode custom
// resources, so what is read back has the same bytes and size.
func Canonical(value any) ([]byte, error) {
	return json.Marshal(normalize(value))
}

// CanonicalJSON is Canonical of encoded JSON.
func CanonicalJSON(raw []byte) ([]byte, error) {
	var value any
	if err := kjson.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	return Canonical(value)
}

// normalize makes floats that are whole numbers integers, in place where it can: in JSON 1.0 and 1
// are equal, in Go they differ.
func normalize(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = normalize(child)
		}
	case []any:
		for i, child := range v {
			v[i] = normalize(child)
		}
	case float64:
		const exact = 1 << 53
		if v == math.Trunc(v) && math.Abs(v) < exact {
			return int64(v)
		}
	}
	return value
}
