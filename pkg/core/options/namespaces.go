package options

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// NeverDeleted reports whether an object stays in a cluster when it is no longer delivered:
// namespaces that a cluster cannot do without, whichever policy selects them.
func NeverDeleted(ref objref.Ref) bool {
	return ref.Group == "" && ref.Resource == "namespaces" &&
		(ref.Name == metav1.NamespaceDefault || strings.HasPrefix(ref.Name, "kube-") || strings.HasPrefix(ref.Name, "open-cluster-management"))
}
