package wdsserver

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// workloadAccounts denies everything to ServiceAccounts that are workload: RBAC that users write
// for them is for the clusters, where they may be cluster-admin. In the WDS, a user who may
// impersonate the ServiceAccounts of one Namespace would have those rights.
type workloadAccounts struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (w workloadAccounts) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if user := a.GetUser(); user != nil {
		if namespace, name, err := serviceaccount.SplitUsername(user.GetName()); err == nil && isWorkload(namespace) {
			return authorizer.DecisionDeny, fmt.Sprintf("ServiceAccount %s/%s is for clusters and has no rights in a WDS. %s", namespace, name, instead), nil
		}
	}
	return w.Authorizer.Authorize(ctx, a)
}

// instead is what a user does who wants a ServiceAccount in the WDS.
const instead = "For access to the WDS, create a ServiceAccount in Namespace " + starlingNamespace + ", which is never delivered"

// isWorkload reports whether ServiceAccounts in that Namespace are workload.
// kube-controller-manager has its own in kube-system.
func isWorkload(namespace string) bool {
	return namespace != starlingNamespace && namespace != "kube-system"
}
