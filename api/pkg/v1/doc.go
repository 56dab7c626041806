// Package v1 holds the API pkg.crossplane.io/v1: packages and their revisions.
//
// The kinds are compatible with those of Crossplane. A package is installed, updated and deleted by
// a Transaction (package v1alpha1).
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1
