package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// Function is a package with a function. It is the same as in v1.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkg}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="INSTALLED",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.conditions[?(@.type=='Healthy')].status`
// +kubebuilder:printcolumn:name="PACKAGE",type=string,JSONPath=`.spec.package`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec pkgv1.FunctionSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status pkgv1.PackageStatus `json:"status,omitempty"`
}

// FunctionRevision is a revision of a Function. It is the same as in v1.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkgrev}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.conditions[?(@.type=='RevisionHealthy')].status`
// +kubebuilder:printcolumn:name="RUNTIME",type=string,JSONPath=`.status.conditions[?(@.type=='RuntimeHealthy')].status`
// +kubebuilder:printcolumn:name="IMAGE",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.spec.desiredState`
// +kubebuilder:printcolumn:name="REVISION",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type FunctionRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec pkgv1.FunctionRevisionSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status pkgv1.FunctionRevisionStatus `json:"status,omitempty"`
}

// FunctionList is a list of Functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Function `json:"items"`
}

// FunctionRevisionList is a list of FunctionRevisions.
//
// +kubebuilder:object:root=true
type FunctionRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FunctionRevision `json:"items"`
}
