package wdsserver

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// workloadAccounts denies everything to ServiceAccounts that are workload: RBAC that users write
// for them is for the clusters, where they may be cluster-admin. In the WDS, a user who may
// impersonate the ServiceAccounts of one Namespace would have those rights.
type workloadAccounts struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (w workloadAccounts) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if user := a.GetUser(); user != nil {
		if namespace, name, err := serviceaccount.SplitUsername(user.GetName()); err == nil && isWorkload(namespace, name) {
			return authorizer.DecisionDeny, fmt.Sprintf("ServiceAccount %s/%s is for clusters and has no rights in a WDS. %s", namespace, name, instead), nil
		}
	}
	return w.Authorizer.Authorize(ctx, a)
}

// instead is what a user does who wants a ServiceAccount in the WDS.
const instead = "For access to the WDS, create a ServiceAccount in Namespace " + starlingNamespace + ", which is never delivered"

// controllerAccounts are the names of the ServiceAccounts of kube-controller-manager, in
// kube-system.
var controllerAccounts = func() sets.Set[string] {
	names := sets.New[string]()
	for _, binding := range bootstrappolicy.ControllerRoleBindings() {
		for _, subject := range binding.Subjects {
			names.Insert(subject.Name)
		}
	}
	return names
}()

// isWorkload reports whether a ServiceAccount is workload. Users deliver some in kube-system too.
func isWorkload(namespace, name string) bool {
	switch namespace {
	case starlingNamespace:
		return false
	case metav1.NamespaceSystem:
		return !controllerAccounts.Has(name)
	}
	return true
}
