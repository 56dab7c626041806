// Package v1alpha1 holds the API store.starling.io/v1alpha1, in which package-server stores the
// packages that it serves. The API is private and may change. Only package-server and the
// controllers that import packages write it.
//
// +kubebuilder:object:generate=true
// +groupName=store.starling.io
package v1alpha1
