package packing

import (
	"cmp"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/objref"
)

// Waves.
const (
	// WaveFirst holds Namespaces and CustomResourceDefinitions.
	WaveFirst = 0
	// WaveSecond holds everything else.
	WaveSecond = 1
)

// WaveOf returns the wave of an object's work.
func WaveOf(gr schema.GroupResource) int {
	if rank(gr) <= rankCRD {
		return WaveFirst
	}
	return WaveSecond
}

// Ranks of kinds: a kind that others refer to comes first.
const (
	rankNamespace = iota
	rankCRD
	rankRole
	rankRoleBinding
	rankServiceAccount
	rankPolicy
	rankClass
	rankConfiguration
	rankVolume
	rankService
	rankUnknown // instances of custom resources, mostly: before the workloads that read them
	rankWorkload
	rankAroundWorkload
	rankInterceptor // calls workloads, and requests fail while those are not ready
)

var ranks = map[schema.GroupResource]int{
	{Resource: "namespaces"}: rankNamespace,
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:               rankCRD,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:                       rankRole,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:                              rankRole,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:                rankRoleBinding,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:                       rankRoleBinding,
	{Resource: "serviceaccounts"}:                                                        rankServiceAccount,
	{Resource: "resourcequotas"}:                                                         rankPolicy,
	{Resource: "limitranges"}:                                                            rankPolicy,
	{Group: "networking.k8s.io", Resource: "networkpolicies"}:                            rankPolicy,
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}:                            rankClass,
	{Group: "storage.k8s.io", Resource: "storageclasses"}:                                rankClass,
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:                                   rankClass,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:                             rankClass,
	{Resource: "configmaps"}:                                                             rankConfiguration,
	{Resource: "secrets"}:                                                                rankConfiguration,
	{Resource: "persistentvolumes"}:                                                      rankVolume,
	{Resource: "persistentvolumeclaims"}:                                                 rankVolume,
	{Resource: "services"}:                                                               rankService,
	{Resource: "pods"}:                                                                   rankWorkload,
	{Resource: "replicationcontrollers"}:                                                 rankWorkload,
	{Group: "apps", Resource: "deployments"}:                                             rankWorkload,
	{Group: "apps", Resource: "replicasets"}:                                             rankWorkload,
	{Group: "apps", Resource: "statefulsets"}:                                            rankWorkload,
	{Group: "apps", Resource: "daemonsets"}:                                              rankWorkload,
	{Group: "batch", Resource: "jobs"}:                                                   rankWorkload,
	{Group: "batch", Resource: "cronjobs"}:                                               rankWorkload,
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:                         rankAroundWorkload,
	{Group: "policy", Resource: "poddisruptionbudgets"}:                                  rankAroundWorkload,
	{Group: "networking.k8s.io", Resource: "ingresses"}:                                  rankAroundWorkload,
	{Group: "apiregistration.k8s.io", Resource: "apiservices"}:                           rankInterceptor,
	{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}: rankInterceptor,
	{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations"}:   rankInterceptor,
}

func rank(gr schema.GroupResource) int {
	if r, ok := ranks[gr]; ok {
		return r
	}
	return rankUnknown
}

// Order compares objects by the order in which a cluster should apply them: by kind, then by
// identity.
func Order(a, b objref.Ref) int {
	return cmp.Or(cmp.Compare(rank(a.GroupResource()), rank(b.GroupResource())), objref.Compare(a, b))
}
