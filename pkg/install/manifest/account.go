package manifest

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// rbacVersion is the version of Kubernetes' API of rights.
const rbacVersion = "rbac.authorization.k8s.io/v1"

// Account identifies a ServiceAccount.
type Account struct{ Namespace, Name string }

// String returns NAMESPACE/NAME, for messages.
func (a Account) String() string { return a.Namespace + "/" + a.Name }

// User returns the name of the user that the ServiceAccount is for an API server.
func (a Account) User() string { return "system:serviceaccount:" + a.Namespace + ":" + a.Name }

// Subject returns the subject of a RoleBinding or ClusterRoleBinding that grants the ServiceAccount
// a role.
func (a Account) Subject() map[string]any {
	return map[string]any{"kind": "ServiceAccount", "namespace": a.Namespace, "name": a.Name}
}

// Objects returns the ServiceAccount, and the ClusterRole and the ClusterRoleBinding with its
// rights.
func (a Account) Objects(roleName, bindingName string, rules ...any) []*unstructured.Unstructured {
	role := New(rbacVersion, "ClusterRole", "", roleName)
	role.Object["rules"] = rules
	binding := New(rbacVersion, "ClusterRoleBinding", "", bindingName)
	binding.Object["roleRef"] = RoleRef("ClusterRole", roleName)
	binding.Object["subjects"] = []any{a.Subject()}
	return []*unstructured.Unstructured{New("v1", "ServiceAccount", a.Namespace, a.Name), role, binding}
}

// RoleRef returns the reference of a RoleBinding or ClusterRoleBinding to a role.
func RoleRef(kind, name string) map[string]any {
	return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
}

// Rule returns a rule of a role.
func Rule(group, resource string, verbs ...any) any {
	return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": verbs}
}
