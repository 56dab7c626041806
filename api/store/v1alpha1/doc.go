// Package v1alpha1 holds the API store.starling.io/v1alpha1, in which package-server keeps what it serves. It is private: nobody
// but it and the controllers that import packages writes it, and it may change.
//
// +kubebuilder:object:generate=true
// +groupName=store.starling.io
package v1alpha1
