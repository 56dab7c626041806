package render

import (
	"fmt"
	"slices"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Withheld returns an error for an object in a namespace of Open Cluster Management to which a
// transport delivers nothing unless it is one of those that are allowed, or for that Namespace.
// What clusters hold of the object stays unchanged: it may be OCM's own, and to remove a Namespace
// there would end the agents of the cluster.
func Withheld(ref objref.Ref, allowed []string) error {
	namespace, is := match.ManagementNamespace(ref)
	if !is || slices.Contains(allowed, namespace) {
		return nil
	}
	return fmt.Errorf("nothing is delivered to namespace %s of Open Cluster Management; a cluster that has the object keeps it unchanged. "+
		"Exclude it, or have an administrator allow it with --ocm-namespaces=%s of the transport-controller", namespace, namespace)
}
