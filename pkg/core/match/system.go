package match

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// systemNamespaces are Namespaces of which each cluster has its own. What users create there is
// workload only for a clause that names the Namespace, so that a clause without namespaces does not
// change the system of a cluster.
var systemNamespaces = []string{"kube-public", "kube-system"}

// builtInNames are objects in systemNamespaces that the control plane of each cluster, or kubeadm,
// makes by itself.
var builtInNames = map[schema.GroupResource]sets.Set[string]{
	{Resource: "configmaps"}: sets.New("cluster-info", "extension-apiserver-authentication",
		"kube-apiserver-legacy-service-account-token-tracking", "kube-root-ca.crt", "kubeadm-config", "kubelet-config"),
	// kube-controller-manager has one for each of its controllers.
	{Resource: "serviceaccounts"}: sets.New("attachdetach-controller", "bootstrap-signer", "certificate-controller", "cloud-provider",
		"clusterrole-aggregation-controller", "cronjob-controller", "daemon-set-controller", "default", "deployment-controller",
		"device-taint-eviction-controller", "disruption-controller", "endpoint-controller", "endpointslice-controller",
		"endpointslicemirroring-controller", "ephemeral-volume-controller", "expand-controller", "generic-garbage-collector",
		"horizontal-pod-autoscaler", "job-controller", "kube-apiserver-serving-clustertrustbundle-publisher",
		"legacy-service-account-token-cleaner", "namespace-controller", "node-controller", "persistent-volume-binder",
		"pod-garbage-collector", "podcertificaterequestcleaner", "pv-protection-controller", "pvc-protection-controller",
		"replicaset-controller", "replication-controller", "resource-claim-controller", "resourcequota-controller",
		"root-ca-cert-publisher", "route-controller", "selinux-warning-controller", "service-account-controller",
		"service-cidrs-controller", "service-controller", "statefulset-controller", "storage-version-garbage-collector",
		"storage-version-migrator-controller", "token-cleaner", "ttl-after-finished-controller", "ttl-controller",
		"validatingadmissionpolicy-status-controller", "volumeattributesclass-protection-controller"),
}

// builtIn reports whether an object in one of the systemNamespaces is made by each cluster, or by
// our charts.
func builtIn(gr schema.GroupResource, obj metav1.Object) bool {
	if gr == (schema.GroupResource{Resource: "secrets"}) && strings.HasPrefix(obj.GetName(), "bootstrap-token-") {
		return true // it lets nodes join one cluster
	}
	return builtInNames[gr].Has(obj.GetName()) || ours(obj) || Generated(gr, obj)
}

// equalities are the operators by which a requirement names values.
var equalities = []selection.Operator{selection.In, selection.Equals, selection.DoubleEquals}

// namedSystem returns the systemNamespaces that a clause names, in its list of Namespaces or by
// their name in its namespace selectors.
func namedSystem(namespaces []string, selectors []labels.Selector) sets.Set[string] {
	named := sets.New(namespaces...)
	for _, selector := range selectors {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			if r.Key() == "kubernetes.io/metadata.name" && slices.Contains(equalities, r.Operator()) {
				named.Insert(r.ValuesUnsorted()...)
			}
		}
	}
	return named.Intersection(sets.New(systemNamespaces...))
}

// ManagementNamespace reports whether the object is a Namespace of Open Cluster Management, or is
// in one. Anyone who writes there acts as OCM's agents, or as the status agent. Nothing is
// delivered there unless an administrator allows it.
func ManagementNamespace(ref objref.Ref) (name string, is bool) {
	name = ref.Namespace
	if ref.GroupResource() == namespaces {
		name = ref.Name
	}
	return name, isManagement(name)
}

func isManagement(name string) bool { return name == ocm || strings.HasPrefix(name, ocm+"-") }

const ocm = "open-cluster-management"

// nodeLease is the Namespace of the heartbeats of nodes.
const nodeLease = "kube-node-lease"

// EssentialNamespace reports whether a cluster cannot do without the Namespace of that name: every
// API server creates it, or Open Cluster Management is in it. What users call kube-something is
// theirs.
func EssentialNamespace(name string) bool {
	return name == metav1.NamespaceDefault || name == nodeLease || isSystem(name) || isManagement(name)
}

// isSystem reports whether a Namespace is one of systemNamespaces.
func isSystem(namespace string) bool { return slices.Contains(systemNamespaces, namespace) }
