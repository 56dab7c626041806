package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CustomTransform says what is taken out of all objects of one resource on their way from the workload definition space (WDS)
// to the clusters, whichever cluster they go to. It comes after what Starling takes out by itself.
//
// Example: Jobs go out without their time limit, and without two labels of theirs.
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

	// spec is what the user asks for.
	// +optional
	Spec CustomTransformSpec `json:"spec,omitempty"`

	// status is what the transport-controller observed. Every CustomTransform has one, whether or not an object of its resource
	// goes anywhere.
	// +optional
	Status CustomTransformStatus `json:"status,omitempty"`
}

// CustomTransformSpec names a resource and what is taken out of its objects.
//
// Of several CustomTransforms for one resource all are carried out, and all get a warning.
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

	// remove lists what is taken out, as JSONPaths (RFC 9535): "$" followed by any number of .name, .*, and brackets with
	// "name", 'name', *, an index (negative ones count from the end) or a filter such as [?@.name == "x" && @.value == 1],
	// also several of these with commas. Double-quoted names may have all escapes of JavaScript.
	//
	// All paths are read against the object as it was, and what any of them selects is removed at once. A path that leads
	// nowhere removes nothing. None may select apiVersion, kind, metadata, or the name or namespace in it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=1024
	Remove []string `json:"remove,omitempty"`
}

// CustomTransformStatus is what the transport-controller observed.
type CustomTransformStatus struct {
	// observedGeneration is the generation of the CustomTransform that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// errors are the mistakes in spec, each with its field. While there are any, nothing of spec is carried out: see inForce.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`

	// warnings tell of what is probably not meant.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// inForce is there while errors are: the last spec for the same resource that had none. It is carried out instead. If
	// it is missing although there are errors, there never was such a spec: objects of the resource are not delivered then, and
	// what was delivered of them stays as it is. Starling's own addition.
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
