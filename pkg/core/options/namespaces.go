package options

import (
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// NeverDeleted reports whether an object stays in a cluster when it is no longer delivered:
// Namespaces that a cluster cannot do without, whichever policy selects them.
func NeverDeleted(ref objref.Ref) bool {
	return ref.Group == "" && ref.Resource == "namespaces" && match.EssentialNamespace(ref.Name)
}
