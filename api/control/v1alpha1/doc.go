// Package v1alpha1 holds the types of control.kubestellar.io/v1alpha1: what users write to say which objects go to which
// clusters (BindingPolicy) and what is taken out of them on the way (CustomTransform), what came of that (Binding), and what
// the clusters report (WorkStatus).
//
// The group, the kinds and the fields are those of KubeStellar, so manifests written for it work here unchanged. Fields
// that Starling adds say so.
//
// +kubebuilder:object:generate=true
// +groupName=control.kubestellar.io
package v1alpha1
