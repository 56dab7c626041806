// Package objref identifies objects of an API server.
//
// An object is identified by group, resource, namespace and name. The version is not part of the
// identity: an object of a kind that is served in several versions is one object.
package objref

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ref identifies one object. It is comparable and may be a key of a map or of a queue.
type Ref struct {
	// Group is the API group; "" is the core group.
	Group string `json:"group,omitempty"`
	// Resource is the lowercase plural.
	Resource string `json:"resource"`
	// Namespace is "" for a cluster-scoped object.
	Namespace string `json:"namespace,omitempty"`
	// Name is the object's name.
	Name string `json:"name"`
}

// New returns the Ref of the object of that resource, namespace and name.
func New(gr schema.GroupResource, namespace, name string) Ref {
	return Ref{Group: gr.Group, Resource: gr.Resource, Namespace: namespace, Name: name}
}

// GroupResource returns the group and resource of r.
func (r Ref) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

// Compare orders Refs by group, resource, namespace and name; it returns -1, 0 or 1.
func Compare(a, b Ref) int {
	return cmp.Or(
		strings.Compare(a.Group, b.Group),
		strings.Compare(a.Resource, b.Resource),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

// String returns the object as users write it: "deployments.apps web/nginx", "configmaps
// web/settings", "namespaces web".
func (r Ref) String() string {
	var b strings.Builder
	b.WriteString(r.Resource)
	if r.Group != "" {
		b.WriteByte('.')
		b.WriteString(r.Group)
	}
	b.WriteByte(' ')
	if r.Namespace != "" {
		b.WriteString(r.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(r.Name)
	return b.String()
}
