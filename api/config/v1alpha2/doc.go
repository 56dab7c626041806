// Package v1alpha2 holds the API config.porch.kpt.dev/v1alpha2: sets of variants of packages.
//
// The kinds are compatible with those of Porch. Fields that Starling adds are optional.
//
// +kubebuilder:object:generate=true
// +groupName=config.porch.kpt.dev
package v1alpha2
