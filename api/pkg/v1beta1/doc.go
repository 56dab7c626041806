// Package v1beta1 holds the API pkg.crossplane.io/v1beta1: the Lock, which lists installed
// packages, and ImageConfig. Function and FunctionRevision are the same as in v1.
//
// The kinds are compatible with those of Crossplane.
//
// +kubebuilder:object:generate=true
// +groupName=pkg.crossplane.io
package v1beta1
