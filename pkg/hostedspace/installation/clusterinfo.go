package installation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/ocm"
)

// clusterInfo is the name of the ConfigMap with the address of a space, and of the role to read it.
// kubeadm and clusteradm use the same ConfigMap.
const (
	clusterInfo     = "cluster-info"
	clusterInfoRole = "starling:cluster-info"

	// The label of what Starling has written. Without it, the ConfigMap is someone else's.
	partOfLabel = "app.kubernetes.io/part-of"
	partOf      = "starling"
)

// addressObjects returns the ConfigMap with the address of a space, and the right to read it: for
// clients without credentials, as kubeadm grants it, and for OCM's bootstrap identity, with which
// clusteradm reads it.
func addressObjects(e *Endpoint) ([]*unstructured.Unstructured, error) {
	kubeconfig := clientcmdapi.NewConfig()
	// kubeadm leaves the names empty, so that the one cluster is found without a name.
	kubeconfig.Clusters[""] = &clientcmdapi.Cluster{Server: e.URL, CertificateAuthorityData: e.CA}
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of %s: %w", clusterInfo, err)
	}
	const rbac = "rbac.authorization.k8s.io/v1"
	info := manifest.New("v1", "ConfigMap", metav1.NamespacePublic, clusterInfo)
	info.SetLabels(map[string]string{partOfLabel: partOf})
	info.Object["data"] = map[string]any{"kubeconfig": string(text)}
	role := manifest.New(rbac, "Role", metav1.NamespacePublic, clusterInfoRole)
	role.Object["rules"] = []any{map[string]any{
		"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{clusterInfo}, "verbs": []any{"get"},
	}}
	binding := manifest.New(rbac, "RoleBinding", metav1.NamespacePublic, clusterInfoRole)
	binding.Object["roleRef"] = manifest.RoleRef("Role", clusterInfoRole)
	binding.Object["subjects"] = []any{
		map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"},
		ocm.BootstrapAccount.Subject(),
	}
	return []*unstructured.Unstructured{info, role, binding}, nil
}
