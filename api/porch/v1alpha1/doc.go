// Package v1alpha1 holds the API porch.kpt.dev/v1alpha1: revisions of packages, and their files.
//
// The kinds are served by an aggregated API server, package-server, and are compatible with those
// of Porch.
//
// +kubebuilder:object:generate=true
// +groupName=porch.kpt.dev
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.kpt.porch.v1alpha1
package v1alpha1
