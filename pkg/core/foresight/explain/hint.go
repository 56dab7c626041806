package explain

import (
	"cmp"
	"fmt"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// hint returns what mends the refusal of a cluster, for the refusals that users meet most. API
// servers have no code for them, so they are recognized by their texts; of others, the text itself
// is all there is to say. Pkg is the command that begins a change of the package
// that the object is of, "" for an object of the WDS.
func hint(item *plan.Item, cluster, pkg string) []string {
	m, edit := item.Message, cmp.Or(pkg, "kubectl edit "+commandRef(item))
	there := "In cluster " + cluster + ": "
	switch {
	case strings.Contains(m, "conflict") && strings.Contains(m, "Apply failed"):
		if pkg != "" {
			return []string{"Give it the annotation starling.io/apply with the value server-side-force in its package:", pkg}
		}
		return []string{"kubectl annotate " + commandRef(item) + " starling.io/apply=server-side-force --overwrite"}
	case strings.Contains(m, "forbidden") && strings.Contains(m, "exceeded quota"):
		return []string{there + "kubectl describe resourcequota" + namespaceFlag(item)}
	case strings.Contains(m, "ValidatingAdmissionPolicy"):
		return []string{edit, there + "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings"}
	case strings.Contains(m, "is forbidden") && lacksRight(m):
		return []string{"Give OCM's work agent the right in cluster " + cluster + ": its ServiceAccount is open-cluster-management-agent/klusterlet-work-sa."}
	case strings.Contains(m, "is forbidden") && strings.Contains(m, "being terminated"):
		return []string{
			"Wait until Namespace " + item.Ref.Namespace + " is deleted in cluster " + cluster + ". If that takes long, see what it waits for:",
			there + "kubectl get namespace " + item.Ref.Namespace + " -o yaml",
		}
	case strings.Contains(m, "no matches for kind"), strings.Contains(m, "the server doesn't have a resource type"),
		strings.Contains(m, "could not find the requested resource"):
		return []string{"Deliver the CustomResourceDefinition of " + item.Kind + " too, or install it in cluster " + cluster + "."}
	case strings.Contains(m, `namespaces "`) && strings.Contains(m, "not found"):
		return []string{"Have a policy select Namespace " + item.Ref.Namespace + " for cluster " + cluster + " too."}
	case item.Immutable, plan.IsImmutable(m):
		return immutable(item, cluster, pkg != "")
	case strings.Contains(m, "failed calling webhook"):
		return []string{there + "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"}
	case strings.Contains(m, "admission webhook"), strings.Contains(m, "is invalid"), strings.Contains(m, "is forbidden"):
		return []string{edit}
	}
	return nil
}

// changePackage returns the command that begins a change of what a Binding delivers, if that is a
// package; otherwise "".
func changePackage(b *controlv1alpha1.Binding) string {
	if b == nil || len(b.Spec.Workload.Packages) != 1 {
		return ""
	}
	of := &b.Spec.Workload.Packages[0]
	return fmt.Sprintf("kubectl starling package copy %s --namespace %s   # then edit the draft, propose it and approve it", of.Name, of.Namespace)
}

// lacksRight reports whether a request was forbidden by RBAC. Admission forbids in similar words.
func lacksRight(message string) bool {
	return strings.Contains(message, `User "`) && strings.Contains(message, " cannot ") || strings.Contains(message, "attempting to grant")
}

// immutable returns what mends the change of a field that cannot be changed: not in the cluster,
// and mostly not in the WDS either.
func immutable(item *plan.Item, cluster string, ofPackage bool) []string {
	there := "In cluster " + cluster + ": kubectl "
	if plan.TakesOthers(item.Ref) {
		loss := "may delete its data"
		switch item.Kind {
		case "Namespace":
			loss = "deletes all that is in it"
		case "CustomResourceDefinition":
			loss = "deletes all its custom resources there, too"
		}
		return []string{
			"See which value the cluster has, and give the object in the WDS the same:", there + "get " + commandRef(item) + " -o yaml",
			"Do not delete the " + item.Kind + " in cluster " + cluster + " in order to change the field: that " + loss + ".",
		}
	}
	if item.Orphan || ofPackage {
		return []string{"Have the cluster re-create it. What it owns, such as Pods, is deleted, too:", there + "delete " + commandRef(item)}
	}
	return []string{
		"Re-create it in the WDS, and each cluster that cannot update it does so, too. What it owns, such as Pods, is deleted there:",
		"kubectl replace --force --filename FILE   # with the manifest of " + item.Ref.String(),
		"Or only there:", there + "delete " + commandRef(item),
	}
}

// commandRef returns the object as arguments of kubectl.
func commandRef(item *plan.Item) string {
	return item.Ref.GroupResource().String() + " " + item.Ref.Name + namespaceFlag(item)
}

func namespaceFlag(item *plan.Item) string {
	if item.Ref.Namespace == "" {
		return ""
	}
	return " --namespace " + item.Ref.Namespace
}
