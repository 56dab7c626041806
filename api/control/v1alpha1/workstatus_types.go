package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkStatus is the status of one delivered object in one cluster.
//
// It is in the mailbox namespace of the cluster in the inventory and transport space (ITS). Only
// the status-agent of that cluster writes it. There is one WorkStatus for each object that Starling
// delivered to the cluster, even if several works contain the object.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName={ws,wss}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="GROUP",type=string,JSONPath=`.spec.sourceRef.group`
// +kubebuilder:printcolumn:name="RESOURCE",type=string,JSONPath=`.spec.sourceRef.resource`
// +kubebuilder:printcolumn:name="OBJECT-NAMESPACE",type=string,JSONPath=`.spec.sourceRef.namespace`
// +kubebuilder:printcolumn:name="OBJECT",type=string,JSONPath=`.spec.sourceRef.name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec identifies the object.
	// +optional
	Spec WorkStatusSpec `json:"spec,omitempty"`

	// status is a copy of the object's .status in the cluster. It is absent if the object has none.
	// The object exists in the cluster if its WorkStatus exists.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Status *runtime.RawExtension `json:"status,omitempty"`
}

// WorkStatusSpec identifies the object of a WorkStatus.
type WorkStatusSpec struct {
	// sourceRef identifies the object.
	// +optional
	SourceRef SourceRef `json:"sourceRef,omitempty"`
}

// SourceRef identifies an object in a cluster.
type SourceRef struct {
	// group is the API group; "" is the core group.
	Group string `json:"group"`
	// version is the API version in which the object was read.
	// +optional
	Version string `json:"version,omitempty"`
	// resource is the lowercase plural.
	// +optional
	Resource string `json:"resource,omitempty"`
	// kind is the object's kind.
	// +optional
	Kind string `json:"kind,omitempty"`
	// name is the object's name.
	// +optional
	Name string `json:"name,omitempty"`
	// namespace is the object's namespace; "" for a cluster-scoped object.
	Namespace string `json:"namespace"`
}

// WorkStatusList is a list of WorkStatuses.
//
// +kubebuilder:object:root=true
type WorkStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkStatus `json:"items"`
}
