package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ProviderRevision is a revision of a Provider.
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
type ProviderRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec ProviderRevisionSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status ProviderRevisionStatus `json:"status,omitempty"`
}

// ProviderRevisionSpec is the desired state of a ProviderRevision.
type ProviderRevisionSpec struct {
	PackageRevisionSpec        `json:",inline"`
	PackageRevisionRuntimeSpec `json:",inline"`
}

// ProviderRevisionStatus is the observed state of a ProviderRevision.
type ProviderRevisionStatus struct {
	PackageRevisionStatus        `json:",inline"`
	PackageRevisionRuntimeStatus `json:",inline"`
}

// ConfigurationRevision is a revision of a Configuration.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkgrev}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.conditions[?(@.type=='RevisionHealthy')].status`
// +kubebuilder:printcolumn:name="IMAGE",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.spec.desiredState`
// +kubebuilder:printcolumn:name="REVISION",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ConfigurationRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec PackageRevisionSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status PackageRevisionStatus `json:"status,omitempty"`
}

// FunctionRevision is a revision of a Function.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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
	Spec FunctionRevisionSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status FunctionRevisionStatus `json:"status,omitempty"`
}

// FunctionRevisionSpec is the desired state of a FunctionRevision.
type FunctionRevisionSpec struct {
	PackageRevisionSpec        `json:",inline"`
	PackageRevisionRuntimeSpec `json:",inline"`
}

// FunctionRevisionStatus is the observed state of a FunctionRevision.
type FunctionRevisionStatus struct {
	PackageRevisionStatus        `json:",inline"`
	PackageRevisionRuntimeStatus `json:",inline"`

	// endpoint is where the function serves.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
}

// PackageRevisionDesiredState reports whether a revision controls its objects.
//
// +kubebuilder:validation:Enum=Inactive;Active
type PackageRevisionDesiredState string

// Desired states.
const (
	// RevisionInactive is a revision that owns its objects, and does not control them.
	RevisionInactive PackageRevisionDesiredState = "Inactive"
	// RevisionActive is a revision that controls its objects.
	RevisionActive PackageRevisionDesiredState = "Active"
)

// PackageRevisionSpec is the part of the desired state that all revisions have.
type PackageRevisionSpec struct {
	// desiredState reports whether the revision controls its objects.
	DesiredState PackageRevisionDesiredState `json:"desiredState"`

	// image is the image of the package.
	Package string `json:"image"`

	// packagePullSecrets are those of the package.
	// +optional
	// +listType=atomic
	PackagePullSecrets []LocalObjectReference `json:"packagePullSecrets,omitempty"`

	// packagePullPolicy is that of the package.
	// +optional
	// +kubebuilder:default=IfNotPresent
	PackagePullPolicy *PullPolicy `json:"packagePullPolicy,omitempty"`

	// revision is the number of the revision. Later revisions of a package have greater numbers.
	Revision int64 `json:"revision"`

	// ignoreCrossplaneConstraints is that of the package.
	// +optional
	// +kubebuilder:default=false
	IgnoreCrossplaneConstraints *bool `json:"ignoreCrossplaneConstraints,omitempty"`

	// skipDependencyResolution is that of the package.
	// +optional
	// +kubebuilder:default=false
	SkipDependencyResolution *bool `json:"skipDependencyResolution,omitempty"`

	// commonLabels are those of the package.
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`

	// commonAnnotations are those of the package.
	// +optional
	CommonAnnotations map[string]string `json:"commonAnnotations,omitempty"`
}

// PackageRevisionRuntimeSpec is the part of the desired state that revisions with a program have.
type PackageRevisionRuntimeSpec struct {
	PackageRuntimeSpec `json:",inline"`

	// tlsServerSecretName is the name of a Secret with a serving certificate.
	// +optional
	TLSServerSecretName *string `json:"tlsServerSecretName,omitempty"`

	// tlsClientSecretName is the name of a Secret with a client certificate.
	// +optional
	TLSClientSecretName *string `json:"tlsClientSecretName,omitempty"`
}

// PackageRevisionStatus is the observed state of a revision.
type PackageRevisionStatus struct {
	// conditions of the revision: see RevisionConditionHealthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// objectRefs are the objects of the revision.
	// +optional
	// +listType=atomic
	ObjectRefs []TypedReference `json:"objectRefs,omitempty"`

	// foundDependencies is the number of dependencies of the package.
	// +optional
	FoundDependencies int64 `json:"foundDependencies,omitempty"`

	// installedDependencies is the number of those that are installed.
	// +optional
	InstalledDependencies int64 `json:"installedDependencies,omitempty"`

	// invalidDependencies is the number of those that are installed in an unsuitable version.
	// +optional
	InvalidDependencies int64 `json:"invalidDependencies,omitempty"`

	// appliedImageConfigRefs are the ImageConfigs that were used, and what for.
	// +optional
	// +listType=atomic
	AppliedImageConfigRefs []ImageConfigReference `json:"appliedImageConfigRefs,omitempty"`

	// resolvedImage is the image that was fetched, after ImageConfigs rewrote it.
	// +optional
	ResolvedPackage string `json:"resolvedImage,omitempty"`

	// capabilities are those that the package declares.
	// +optional
	// +listType=atomic
	Capabilities []string `json:"capabilities,omitempty"`
}

// PackageRevisionRuntimeStatus is the observed state of a program.
type PackageRevisionRuntimeStatus struct {
	// tlsServerSecretName is the name of a Secret with a serving certificate.
	// +optional
	TLSServerSecretName *string `json:"tlsServerSecretName,omitempty"`

	// tlsClientSecretName is the name of a Secret with a client certificate.
	// +optional
	TLSClientSecretName *string `json:"tlsClientSecretName,omitempty"`
}

// TypedReference identifies an object.
type TypedReference struct {
	// apiVersion of the object.
	APIVersion string `json:"apiVersion"`
	// kind of the object.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
	// uid of the object.
	// +optional
	UID *types.UID `json:"uid,omitempty"`
}

// ProviderRevisionList is a list of ProviderRevisions.
//
// +kubebuilder:object:root=true
type ProviderRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ProviderRevision `json:"items"`
}

// ConfigurationRevisionList is a list of ConfigurationRevisions.
//
// +kubebuilder:object:root=true
type ConfigurationRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ConfigurationRevision `json:"items"`
}

// FunctionRevisionList is a list of FunctionRevisions.
//
// +kubebuilder:object:root=true
type FunctionRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FunctionRevision `json:"items"`
}
