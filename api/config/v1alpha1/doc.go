// Package v1alpha1 holds the API config.porch.kpt.dev/v1alpha1: where packages lie, and which variants of
// packages are kept.
//
// The kinds are compatible with those of Porch; what Starling adds to them is optional.
//
// +kubebuilder:object:generate=true
// +groupName=config.porch.kpt.dev
package v1alpha1
