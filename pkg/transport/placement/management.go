package placement

import (
	"fmt"
	"slices"

	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// refuse returns an error for an object in a namespace of Open Cluster Management to which nothing
// is delivered, or for that Namespace. Here is the one place that all objects pass, also those of
// packages and of Bindings that users write. What clusters hold of the object stays unchanged:
// it may be OCM's own, and to remove a Namespace there would end the agents of the cluster.
func (g *Gatherer) refuse(ref objref.Ref) error {
	namespace, is := match.ManagementNamespace(ref)
	if !is || slices.Contains(g.config.ManagementNamespaces, namespace) {
		return nil
	}
	return fmt.Errorf("nothing is delivered to namespace %s of Open Cluster Management; a cluster that has the object keeps it unchanged. "+
		"Exclude it, or have an administrator allow it with --ocm-namespaces=%s of the transport-controller", namespace, namespace)
}
