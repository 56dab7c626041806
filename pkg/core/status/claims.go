package status

import (
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Claims are the objects in a work that it does not deliver: the value of AnnotationClaims. An
// object is the hash in the name of its WorkStatus: so the largest work that claims all of its
// objects is still one that an API server stores.
type Claims string

// NewClaims returns Claims of these objects, "" for none.
func NewClaims(refs []objref.Ref) Claims {
	hashes := make([]string, len(refs))
	for i, ref := range refs {
		hashes[i] = hashOf(ref)
	}
	slices.Sort(hashes)
	return Claims(strings.Join(slices.Compact(hashes), ","))
}

// Has reports whether the object is claimed whose WorkStatus has that name.
func (c Claims) Has(report string) bool {
	if c == "" {
		return false
	}
	hash := report[strings.LastIndex(report, "-")+1:]
	return slices.Contains(strings.Split(string(c), ","), hash)
}
