package match

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// What is never workload, whatever a policy says, is what an API server or its controllers make by
// themselves, and what Starling and its packages are made of: each cluster has its own.
// docs/design/0003-binding.md has the reasons.

// neverGroups are API groups of which nothing is workload.
var neverGroups = []string{
	// Made by the API server, or of a meaning in one cluster only.
	"apiregistration.k8s.io",
	"coordination.k8s.io",
	"discovery.k8s.io",
	"events.k8s.io",
	"flowcontrol.apiserver.k8s.io",
	"internal.apiserver.k8s.io",
	// Ours, and those of packages.
	"config.porch.kpt.dev",
	"control.kubestellar.io",
	"pkg.crossplane.io",
	"porch.kpt.dev",
	"starling.io",
}

// neverResources are resources, of other groups, of which nothing is workload.
var neverResources = []schema.GroupResource{
	endpoints,
	{Resource: "events"},
	{Resource: "nodes"},
	{Group: "networking.k8s.io", Resource: "ipaddresses"}, // the API server makes one for each Service
	{Group: "storage.k8s.io", Resource: "csinodes"},
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"},
}

var (
	endpoints      = schema.GroupResource{Resource: "endpoints"}
	endpointSlices = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	apiServices    = schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}
)

// Unsent reports whether objects of that resource are written by users, too, although they are no
// workload: a policy that asks for such an object reports that. They are watched for that.
func Unsent(gr schema.GroupResource) bool {
	return gr == endpoints || gr == endpointSlices || gr == apiServices
}

// handWritten reports whether a user wrote the object, judged by its metadata.
func handWritten(gr schema.GroupResource, obj metav1.Object) bool {
	switch namespace := obj.GetNamespace(); {
	case namespace == metav1.NamespaceDefault && obj.GetName() == "kubernetes": // of the API server
		return false
	case isSystem(namespace), slices.Contains(neverNamespaces, namespace):
		return false
	}
	labels, annotations := obj.GetLabels(), obj.GetAnnotations()
	switch gr {
	case endpoints:
		_, changed := annotations["endpoints.kubernetes.io/last-change-trigger-time"] // before Kubernetes 1.33 there was no label
		return labels["endpoints.kubernetes.io/managed-by"] != "endpoint-controller" && !changed
	case endpointSlices:
		by := labels["endpointslice.kubernetes.io/managed-by"]
		return by != "endpointslice-controller.k8s.io" && by != "endpointslicemirroring-controller.k8s.io"
	case apiServices:
		_, made := labels["kube-aggregator.kubernetes.io/automanaged"]
		return !made && !ours(obj)
	}
	return false
}

// neverNamespaces are Namespaces that, with all in them, belong to the space itself.
var neverNamespaces = []string{nodeLease, controlv1alpha1.ReportNamespace, "starling-system"}

// NeverResource reports whether nothing of that resource is ever workload. Such resources need not
// be watched.
func NeverResource(gr schema.GroupResource) bool {
	return neverGroup(gr.Group) || slices.Contains(neverResources, gr)
}

func neverGroup(group string) bool {
	return slices.Contains(neverGroups, group) || strings.HasSuffix(group, ".starling.io")
}

// Generated reports whether the object is one that controllers make in each namespace of each
// cluster. It is no workload unless the administrator says so.
func Generated(gr schema.GroupResource, obj metav1.Object) bool {
	switch gr {
	case schema.GroupResource{Resource: "configmaps"}:
		return obj.GetName() == "kube-root-ca.crt"
	case schema.GroupResource{Resource: "secrets"}:
		// Metadata do not tell the type; every token Secret carries this annotation.
		_, token := obj.GetAnnotations()["kubernetes.io/service-account.name"]
		return token
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return obj.GetName() == "default"
	}
	return false
}

// neverNamespace reports whether a Namespace object is never workload.
func neverNamespace(name string) bool {
	return slices.Contains(neverNamespaces, name) || isSystem(name)
}

// ours reports whether the object is one that our charts install. Besides cluster-scoped objects,
// they are in starling-system and kube-system.
func ours(obj metav1.Object) bool { return obj.GetLabels()["app.kubernetes.io/part-of"] == "starling" }

// NeverObject reports whether the object of that resource is never workload.
func NeverObject(gr schema.GroupResource, obj metav1.Object) bool { return NeverBecause(gr, obj) != "" }

// Reasons why an object is never workload.
const (
	becauseResource  = "no object of this kind is workload: each cluster has its own, or it belongs to Starling"
	becauseNamespace = "its Namespace belongs to the WDS itself"
	becauseBuiltIn   = "each cluster makes its own of this name"
	becauseOurs      = "Starling is made of it"
)

// NeverBecause returns why the object of that resource is never workload, "" if it may be.
func NeverBecause(gr schema.GroupResource, obj metav1.Object) string {
	name := obj.GetName()
	switch {
	case NeverResource(gr):
		return becauseResource
	case slices.Contains(neverNamespaces, obj.GetNamespace()):
		return becauseNamespace
	case isSystem(obj.GetNamespace()) && builtIn(gr, obj):
		return becauseBuiltIn
	case obj.GetNamespace() == "" && ours(obj):
		return becauseOurs
	}
	builtIn := false
	switch gr {
	case schema.GroupResource{Resource: "services"}:
		builtIn = obj.GetNamespace() == metav1.NamespaceDefault && name == "kubernetes"
	case schema.GroupResource{Resource: "namespaces"}:
		builtIn = neverNamespace(name)
	case schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}:
		builtIn = name == "kubernetes"
	case schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:
		builtIn = strings.HasPrefix(name, "system-")
	case schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:
		if _, group, _ := strings.Cut(name, "."); neverGroup(group) {
			return becauseOurs
		}
	}
	if builtIn || gr.Group == "rbac.authorization.k8s.io" && obj.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults" {
		return becauseBuiltIn
	}
	return ""
}
