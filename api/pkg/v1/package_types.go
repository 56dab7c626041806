package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provider is a package that adds CustomResourceDefinitions.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkg}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="INSTALLED",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.conditions[?(@.type=='Healthy')].status`
// +kubebuilder:printcolumn:name="PACKAGE",type=string,JSONPath=`.spec.package`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Installed')].reason`
type Provider struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec ProviderSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status PackageStatus `json:"status,omitempty"`
}

// ProviderSpec is the desired state of a Provider.
type ProviderSpec struct {
	PackageSpec        `json:",inline"`
	PackageRuntimeSpec `json:",inline"`
}

// Configuration is a package that adds composite resources.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkg}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="INSTALLED",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.conditions[?(@.type=='Healthy')].status`
// +kubebuilder:printcolumn:name="PACKAGE",type=string,JSONPath=`.spec.package`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Installed')].reason`
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec PackageSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status PackageStatus `json:"status,omitempty"`
}

// Function is a package with a function. Nothing in it is installed.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkg}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="INSTALLED",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.conditions[?(@.type=='Healthy')].status`
// +kubebuilder:printcolumn:name="PACKAGE",type=string,JSONPath=`.spec.package`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Installed')].reason`
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec FunctionSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status PackageStatus `json:"status,omitempty"`
}

// FunctionSpec is the desired state of a Function.
type FunctionSpec struct {
	PackageSpec        `json:",inline"`
	PackageRuntimeSpec `json:",inline"`
}

// RevisionActivationPolicy selects whether a new revision becomes active without a user.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type RevisionActivationPolicy string

// Activation policies.
const (
	// AutomaticActivation makes each new revision active.
	AutomaticActivation RevisionActivationPolicy = "Automatic"
	// ManualActivation leaves new revisions inactive until a user makes them active.
	ManualActivation RevisionActivationPolicy = "Manual"
)

// PullPolicy says when the registry of a package is asked.
//
// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
type PullPolicy string

// Pull policies.
const (
	// PullIfNotPresent asks the registry for what is not cached.
	PullIfNotPresent PullPolicy = "IfNotPresent"
	// PullAlways asks the registry at intervals whether a tag has moved.
	PullAlways PullPolicy = "Always"
	// PullNever uses only what is cached.
	PullNever PullPolicy = "Never"
)

// LocalObjectReference names an object in a namespace that follows from the context.
type LocalObjectReference struct {
	// name of the object.
	// +optional
	Name string `json:"name,omitempty"`
}

// PackageSpec is the part of the desired state that all packages have.
type PackageSpec struct {
	// package is the image of the package: a fully qualified name with a tag, a digest or both.
	// There is no default registry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?([.][a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)+(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+(:[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}(@sha256:[a-f0-9]{64})?|@sha256:[a-f0-9]{64})$')",message="must be a fully qualified image with a registry, at least one path segment, and a tag or a digest, such as registry.example.com/org/package:v1.0.0"
	Package string `json:"package"`

	// revisionActivationPolicy reports whether a new revision becomes active without a user.
	// +optional
	// +kubebuilder:default=Automatic
	RevisionActivationPolicy *RevisionActivationPolicy `json:"revisionActivationPolicy,omitempty"`

	// revisionHistoryLimit is the number of inactive revisions that are kept. 0 keeps all.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	RevisionHistoryLimit *int64 `json:"revisionHistoryLimit,omitempty"`

	// packagePullSecrets are Secrets of type kubernetes.io/dockerconfigjson in the namespace
	// starling-system, with credentials for the registry of the package.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PackagePullSecrets []LocalObjectReference `json:"packagePullSecrets,omitempty"`

	// packagePullPolicy says when the registry is asked. IfNotPresent asks once for each tag,
	// Always asks at intervals whether a tag has moved, Never uses only what is cached.
	// +optional
	// +kubebuilder:default=IfNotPresent
	PackagePullPolicy *PullPolicy `json:"packagePullPolicy,omitempty"`

	// ignoreCrossplaneConstraints ignores the versions of Crossplane that the package supports.
	// +optional
	// +kubebuilder:default=false
	IgnoreCrossplaneConstraints *bool `json:"ignoreCrossplaneConstraints,omitempty"`

	// skipDependencyResolution ignores the dependencies of the package.
	// +optional
	// +kubebuilder:default=false
	SkipDependencyResolution *bool `json:"skipDependencyResolution,omitempty"`

	// commonLabels are set on all objects of the package.
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`

	// commonAnnotations are set on all objects of the package.
	// +optional
	CommonAnnotations map[string]string `json:"commonAnnotations,omitempty"`
}

// PackageRuntimeSpec is the part of the desired state that packages with a program have. Starling
// keeps it, and starts no programs: nothing runs in a workload definition space.
type PackageRuntimeSpec struct {
	// runtimeConfigRef names the configuration of the program.
	// +optional
	// +kubebuilder:default={name: default}
	RuntimeConfigReference *RuntimeConfigReference `json:"runtimeConfigRef,omitempty"`
}

// RuntimeConfigReference names the configuration of a program.
type RuntimeConfigReference struct {
	// apiVersion of the configuration.
	// +optional
	// +kubebuilder:default="pkg.crossplane.io/v1beta1"
	APIVersion *string `json:"apiVersion,omitempty"`
	// kind of the configuration.
	// +optional
	// +kubebuilder:default=DeploymentRuntimeConfig
	Kind *string `json:"kind,omitempty"`
	// name of the configuration.
	Name string `json:"name"`
}

// PackageStatus is the observed state of a package.
type PackageStatus struct {
	// conditions of the package: see PackageConditionInstalled and PackageConditionHealthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// currentRevision is the name of the revision that the package was last installed with.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// currentIdentifier is spec.package of that revision.
	// +optional
	CurrentIdentifier string `json:"currentIdentifier,omitempty"`

	// resolvedPackage is the image that was fetched, after ImageConfigs rewrote it.
	// +optional
	ResolvedPackage string `json:"resolvedPackage,omitempty"`

	// appliedImageConfigRefs are the ImageConfigs that were used, and what for.
	// +optional
	// +listType=atomic
	AppliedImageConfigRefs []ImageConfigReference `json:"appliedImageConfigRefs,omitempty"`
}

// ImageConfigReference names an ImageConfig that was used.
type ImageConfigReference struct {
	// name of the ImageConfig.
	Name string `json:"name"`
	// reason says what it was used for: RewriteImage or SetImagePullSecret.
	Reason string `json:"reason"`
}

// ProviderList is a list of Providers.
//
// +kubebuilder:object:root=true
type ProviderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Provider `json:"items"`
}

// ConfigurationList is a list of Configurations.
//
// +kubebuilder:object:root=true
type ConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Configuration `json:"items"`
}

// FunctionList is a list of Functions.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Function `json:"items"`
}
