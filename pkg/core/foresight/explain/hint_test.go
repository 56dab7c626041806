package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/golden"
)

// TestHints has what is proposed for refusals of a cluster.
func TestHints(t *testing.T) {
	t.Parallel()
	deployment := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}
	var texts []golden.Text
	for _, refusal := range []struct {
		kind    string
		ref     objref.Ref
		message string
	}{
		{"Deployment", deployment, `Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas`},
		{"Deployment", deployment, "spec.selector: Invalid value: field is immutable"},
		{
			"CustomResourceDefinition",
			objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: "shops.example.com"},
			`CustomResourceDefinition.apiextensions.k8s.io "shops.example.com" is invalid: spec.scope: Invalid value: "Cluster": field is immutable`,
		},
		{
			"PersistentVolumeClaim",
			objref.Ref{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"},
			`PersistentVolumeClaim "data" is invalid: spec.storageClassName: Invalid value: "fast": field is immutable`,
		},
		{"StatefulSet", objref.Ref{Group: "apps", Resource: "statefulsets", Namespace: "shop", Name: "db"}, `StatefulSet.apps "db" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden`},
		{"Deployment", deployment, `deployments.apps "web" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "deployments" in API group "apps"`},
		{
			"Role",
			objref.Ref{Group: "rbac.authorization.k8s.io", Resource: "roles", Namespace: "shop", Name: "reader"},
			`roles.rbac.authorization.k8s.io "reader" is forbidden: user "system:serviceaccount:a:b" (groups=["c"]) is attempting to grant RBAC permissions not currently held`,
		},
		{
			"ConfigMap",
			objref.Ref{Resource: "configmaps", Namespace: "x", Name: "c"},
			`configmaps "c" is forbidden: unable to create new content in namespace x because it is being terminated`,
		},
		{"Pod", objref.Ref{Resource: "pods", Namespace: "shop", Name: "one"}, `pods "one" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`},
		{"Pod", objref.Ref{Resource: "pods", Namespace: "shop", Name: "one"}, `pods "one" is forbidden: maximum cpu usage per Container is 1, but limit is 2`},
		{"Pod", objref.Ref{Resource: "pods", Namespace: "shop", Name: "one"}, `pods "one" is forbidden: exceeded quota: all`},
	} {
		item := &plan.Item{Ref: refusal.ref, Kind: refusal.kind, Message: refusal.message}
		texts = append(texts, golden.Text{Heading: refusal.message, Text: strings.Join(hint(item, "c1", ""), "\n") + "\n"})
		if of := hint(item, "c1", "CHANGE THE PACKAGE"); !slices.Equal(of, hint(item, "c1", "")) {
			texts = append(texts, golden.Text{Heading: "In a package: " + refusal.message, Text: strings.Join(of, "\n") + "\n"})
		}
	}
	golden.Texts(t, texts...)
}
