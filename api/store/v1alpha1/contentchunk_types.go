package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ContentChunk is a part of the files of a package. It never changes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="DIGEST",type=string,JSONPath=`.digest`
// +kubebuilder:printcolumn:name="PART",type=integer,JSONPath=`.part`
// +kubebuilder:printcolumn:name="PARTS",type=integer,JSONPath=`.parts`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.digest == oldSelf.digest && self.part == oldSelf.part && self.parts == oldSelf.parts && self.data == oldSelf.data",message="content never changes"
type ContentChunk struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// digest of the files of the package.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
	// part is the index of this part, from 0.
	// +kubebuilder:validation:Minimum=0
	Part int32 `json:"part"`
	// parts is the number of parts.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Parts int32 `json:"parts"`
	// data is the part, in base64. It is not a []byte, because validation rules reject strings of
	// that format that contain "+" or "/".
	// +kubebuilder:validation:MaxLength=1300000
	Data string `json:"data"`
}

// ContentChunkList is a list of ContentChunks.
//
// +kubebuilder:object:root=true
type ContentChunkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ContentChunk `json:"items"`
}
