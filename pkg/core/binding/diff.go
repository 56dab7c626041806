package binding

import (
	"slices"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
)

// Difference is how far two specs are apart.
type Difference int

const (
	// Equal specs need no write.
	Equal Difference = iota
	// Versions: only resourceVersions differ. Such a write may wait.
	Versions
	// Set: objects, how they are carried, or destinations differ, or their order.
	Set
)

// Diff returns how far the specs are apart. Its cost is linear in their size.
func Diff(a, b *controlv1alpha1.BindingSpec) Difference {
	if !slices.Equal(a.Destinations, b.Destinations) || CountObjects(a) != CountObjects(b) {
		return Set
	}
	found := Equal
	others := slices.Collect(match.Entries(b))
	for i, x := range slices.Collect(match.Entries(a)) {
		y := &others[i]
		if x.Ref != y.Ref || x.Version != y.Version || !match.EqualModulation(x.Modulation, y.Modulation) {
			return Set
		}
		if x.ResourceVersion != y.ResourceVersion {
			found = Versions
		}
	}
	return found
}
