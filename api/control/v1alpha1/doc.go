// Package v1alpha1 holds the types of control.kubestellar.io/v1alpha1.
//
// Users write BindingPolicies, which select objects and clusters; CustomTransforms, which remove
// fields from objects; and StatusCollectors, which query statuses. Starling writes Bindings, the
// results of policies; WorkStatuses, the statuses of objects in clusters; and CombinedStatuses, the
// results of StatusCollectors.
//
// The group, the kinds and the fields are those of KubeStellar, so manifests written for
// KubeStellar work unchanged. The documentation of a field says so if KubeStellar does not have the
// field.
//
// +kubebuilder:object:generate=true
// +groupName=control.kubestellar.io
package v1alpha1
