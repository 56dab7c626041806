package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// WorkStatus is the state of one delivered object in one cluster.
//
// It lies in the cluster's mailbox namespace in the inventory and transport space (ITS) and is written by the status-agent
// of that cluster only. There is one for each object that Starling delivered to the cluster, however many works hold it.
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

	// spec says which object this is about.
	// +optional
	Spec WorkStatusSpec `json:"spec,omitempty"`

	// status is a copy of the object's .status in the cluster; absent for an object that has none: that this WorkStatus
	// exists says that the object is there.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Status *runtime.RawExtension `json:"status,omitempty"`
}

// WorkStatusSpec says which object a WorkStatus is about.
type WorkStatusSpec struct {
	// sourceRef identifies the object.
	// +optional
	SourceRef SourceRef `json:"sourceRef,omitempty"`
}

// SourceRef identifies an object in a cluster.
type SourceRef struct {
	// group is the API group; "" is the core group.
	Group string `json:"group"`
	// version is the API version through which the object was read.
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
