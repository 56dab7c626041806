// Package v1alpha1 holds the API config.porch.kpt.dev/v1alpha1: repositories of packages, and
// variants of packages.
//
// The kinds are compatible with those of Porch. Fields that Starling adds are optional.
//
// +kubebuilder:object:generate=true
// +groupName=config.porch.kpt.dev
package v1alpha1
