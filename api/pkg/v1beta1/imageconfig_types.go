package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// ImageConfig configures how images are fetched whose names have one of its prefixes. For each of
// its sections, the ImageConfig with the longest prefix that has this section counts.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=crossplane
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type ImageConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the configuration.
	// +optional
	Spec ImageConfigSpec `json:"spec,omitempty"`
}

// ImageConfigSpec is the configuration of images.
type ImageConfigSpec struct {
	// matchImages select the images.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	MatchImages []ImageMatch `json:"matchImages"`

	// registry configures the access to the registry.
	// +optional
	Registry *RegistryConfig `json:"registry,omitempty"`

	// verification configures how signatures are checked. Starling does not check signatures: an
	// image that requires it is not installed.
	// +optional
	Verification *ImageVerification `json:"verification,omitempty"`

	// rewriteImage replaces the prefix that matched.
	// +optional
	RewriteImage *ImageRewrite `json:"rewriteImage,omitempty"`

	// runtime configures the program in the image. Starling does not use it.
	// +optional
	Runtime *ImageRuntime `json:"runtime,omitempty"`
}

// MatchType says how an image is compared.
//
// +kubebuilder:validation:Enum=Prefix
type MatchType string

// MatchPrefix compares the beginning of the name.
const MatchPrefix MatchType = "Prefix"

// ImageMatch selects images.
type ImageMatch struct {
	// type says how images are compared.
	// +optional
	// +kubebuilder:default=Prefix
	Type MatchType `json:"type,omitempty"`
	// prefix is the beginning of the name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Prefix string `json:"prefix"`
}

// RegistryConfig configures the access to a registry.
type RegistryConfig struct {
	// authentication has the credentials.
	// +optional
	Authentication *RegistryAuthentication `json:"authentication,omitempty"`
}

// RegistryAuthentication has the credentials for a registry.
type RegistryAuthentication struct {
	// pullSecretRef is a Secret of type kubernetes.io/dockerconfigjson in the namespace
	// starling-system.
	PullSecretRef pkgv1.LocalObjectReference `json:"pullSecretRef"`
}

// ImageVerification configures how signatures are checked.
type ImageVerification struct {
	// provider checks the signatures.
	// +kubebuilder:validation:Enum=Cosign
	Provider string `json:"provider"`
	// cosign configures the provider Cosign.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Cosign *CosignVerification `json:"cosign,omitempty"`
}

// CosignVerification configures the provider Cosign. Its fields are kept and not read.
//
// +kubebuilder:pruning:PreserveUnknownFields
type CosignVerification struct{}

// ImageRewrite replaces the beginning of the name of an image.
type ImageRewrite struct {
	// prefix replaces the prefix that matched.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Prefix string `json:"prefix"`
}

// ImageRuntime configures the program in an image.
type ImageRuntime struct {
	// configRef names the configuration.
	// +optional
	ConfigReference *pkgv1.RuntimeConfigReference `json:"configRef,omitempty"`
}

// ImageConfigList is a list of ImageConfigs.
//
// +kubebuilder:object:root=true
type ImageConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImageConfig `json:"items"`
}
