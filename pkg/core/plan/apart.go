package plan

import (
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
)

// What a cluster cannot read keeps its agent from deleting and recording everything else of the
// work (Item.Unread). Custom resources are what a cluster lacks most: their kind, or the agent's
// right to read it, also of a kind that the Binding itself delivers. So they have works of their
// own, those of an API group together. What is in a work with others stays there, since to move an
// object puts it at risk.

// newWorks is shared by no object that is in a work.
const newWorks = "/"

// apartOf returns which objects share the fate of an object in a cluster; "" for all that each
// cluster has a kind for.
func apartOf(ref objref.Ref) string {
	if builtIn(ref.Group) {
		return ""
	}
	return ref.Group
}

// setApart sets of which objects a work is; there is at least one.
func setApart(work *packing.Work, items []Item) {
	for i := range items {
		apart := apartOf(items[i].Ref)
		if i == 0 {
			work.Apart = apart
		}
		work.Mixed = work.Mixed || apart != work.Apart
	}
}

// builtIn reports whether API servers serve the group by themselves. CustomResourceDefinitions may
// be of a group that ends in k8s.io, too.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains(builtInGroups, group)
}

var builtInGroups = []string{
	"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
	"certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io",
	"internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io",
	"scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
}
