package objref

import "k8s.io/apimachinery/pkg/runtime/schema"

// tracked are built-in resources with a status, whose generation changes with each change of their
// spec. Metadata and status are all else that they have.
//
//nolint:gochecknoglobals // a constant
var tracked = map[schema.GroupResource]bool{
	{Resource: "replicationcontrollers"}:                                             true,
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}:           true,
	{Group: "apps", Resource: "daemonsets"}:                                          true,
	{Group: "apps", Resource: "deployments"}:                                         true,
	{Group: "apps", Resource: "replicasets"}:                                         true,
	{Group: "apps", Resource: "statefulsets"}:                                        true,
	{Group: "batch", Resource: "cronjobs"}:                                           true,
	{Group: "batch", Resource: "jobs"}:                                               true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                 true,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: true,
	{Group: "networking.k8s.io", Resource: "ingresses"}:                              true,
	{Group: "policy", Resource: "poddisruptionbudgets"}:                              true,
}

// GenerationTracksContent reports whether the generation of objects of a built-in resource changes
// whenever anything but their metadata and status does. It is also so for all custom resources, but
// not in general: the generation of a PriorityClass is always 1, and an aggregated API may do
// anything. The resourceVersion of an object always changes, also with its status.
func GenerationTracksContent(gr schema.GroupResource) bool { return tracked[gr] }
