package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CustomTransform removes fields from all objects of one resource when they are delivered from the
// workload definition space (WDS) to the clusters. It is the same for all clusters. Starling
// removes the fields that API servers set before it applies CustomTransforms.
//
// Example: deliver Jobs without their time limit and without two of their labels.
//
//	apiVersion: control.kubestellar.io/v1alpha1
//	kind: CustomTransform
//	metadata:
//	  name: jobs
//	spec:
//	  apiGroup: batch
//	  resource: jobs
//	  remove:
//	  - $.spec.activeDeadlineSeconds
//	  - $.metadata.labels["example.com/owner", "example.com/phase"]
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=ct,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="SUBJECT_GROUP",type=string,JSONPath=`.spec.apiGroup`
// +kubebuilder:printcolumn:name="SUBJECT_RESOURCE",type=string,JSONPath=`.spec.resource`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ERROR",type=string,JSONPath=`.status.errors[0]`
type CustomTransform struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the resource and the fields.
	// +optional
	Spec CustomTransformSpec `json:"spec,omitempty"`

	// status is the state of the CustomTransform, as the transport-controller observed it. Every
	// CustomTransform has one, even if no object of its resource is delivered.
	// +optional
	Status CustomTransformStatus `json:"status,omitempty"`
}

// CustomTransformSpec names a resource and the fields that are removed from its objects.
//
// If there are several CustomTransforms for one resource, all are applied, and each has a warning
// in its status.
type CustomTransformSpec struct {
	// apiGroup is the API group of the objects, without a version; "" is the core group.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$')",message="must be an API group without its version, such as apps; the core group is the empty string"
	APIGroup string `json:"apiGroup"`

	// resource is the lowercase plural, such as "deployments", without a subresource.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be the lowercase plural, such as deployments, without a subresource"
	Resource string `json:"resource"`

	// remove lists the fields that are removed, as JSONPaths (RFC 9535). A path is "$" followed by
	// any number of .name, .*, and brackets. Brackets contain "name", 'name', *, an index (a
	// negative one counts from the end), or a filter such as [?@.name == "x" && @.value == 1]; or
	// several of these, separated by commas. Names in double quotes may have all escapes of
	// JavaScript.
	//
	// All paths are evaluated against the unchanged object, then everything that they select is
	// removed. A path that selects nothing removes nothing. A path must not select apiVersion,
	// kind, metadata, metadata.name or metadata.namespace.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	Remove []string `json:"remove,omitempty"`
}

// CustomTransformStatus is the state of a CustomTransform, as the transport-controller observed it.
type CustomTransformStatus struct {
	// observedGeneration is the generation of the CustomTransform that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// errors are the mistakes in spec, each with its field. While the list is not empty, inForce is
	// applied instead of spec.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`

	// warnings are parts of spec that are valid but probably not intended.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// inForce is the last valid spec for the same resource. It is present, and is applied instead
	// of spec, while spec has errors. If spec has errors and inForce is absent, there was no valid
	// spec: new objects of the resource are not delivered, and delivered objects stay unchanged.
	// KubeStellar does not have this field.
	// +optional
	InForce *CustomTransformSpec `json:"inForce,omitempty"`
}

// CustomTransformList is a list of CustomTransforms.
//
// +kubebuilder:object:root=true
type CustomTransformList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CustomTransform `json:"items"`
}
