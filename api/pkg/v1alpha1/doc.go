// Package v1alpha1 holds the API pkg.crossplane.io/v1alpha1: the Transaction, which validates and
// carries out one change of the installed packages.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1alpha1
