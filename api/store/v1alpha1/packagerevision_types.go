package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// PackageRevision is what is kept of a PackageRevision of porch.kpt.dev: an object of the same namespace, name, labels, annotations
// and finalizers. Its files are kept beside it, by their digest.
//
// It has no subresource status: what belongs together changes in one write.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource
// +kubebuilder:selectablefield:JSONPath=".spec.packageName"
// +kubebuilder:selectablefield:JSONPath=".spec.repository"
// +kubebuilder:selectablefield:JSONPath=".spec.workspaceName"
// +kubebuilder:selectablefield:JSONPath=".spec.revision"
// +kubebuilder:selectablefield:JSONPath=".spec.lifecycle"
// +kubebuilder:selectablefield:JSONPath=".content.upstream"
// +kubebuilder:printcolumn:name="PACKAGE",type=string,JSONPath=`.spec.packageName`
// +kubebuilder:printcolumn:name="WORKSPACENAME",type=string,JSONPath=`.spec.workspaceName`
// +kubebuilder:printcolumn:name="REVISION",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="LIFECYCLE",type=string,JSONPath=`.spec.lifecycle`
// +kubebuilder:printcolumn:name="REPOSITORY",type=string,JSONPath=`.spec.repository`
// +kubebuilder:printcolumn:name="DIGEST",type=string,JSONPath=`.content.digest`,priority=1
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type PackageRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is that of the object served. lifecycle is always set here: selectors select by it.
	Spec porchv1alpha1.PackageRevisionSpec `json:"spec"`
	// status is that of the object served.
	// +optional
	Status porchv1alpha1.PackageRevisionStatus `json:"status,omitempty"`
	// content says what the files are.
	Content Content `json:"content"`
	// external says where the git repository or registry of the Repository has it; empty for what is here alone. Owner: the repositories
	// controller.
	// +optional
	External External `json:"external,omitempty"`
	// served is what else the object served has, and this one has not, since it would mean something else here.
	// +optional
	Served Served `json:"served,omitempty"`
}

// Content names the files of a revision, and what they were made of. All that it names is kept as long as the revision.
type Content struct {
	// digest identifies the files.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
	// files is how many there are.
	// +kubebuilder:validation:Minimum=0
	Files int32 `json:"files"`
	// base is the digest of what the files were made of: of the revision that was copied or upgraded, or of the upstream that was
	// cloned. Empty for what began empty, or was imported.
	// +optional
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64})?$`
	Base string `json:"base,omitempty"`
	// upstream is the name of the PackageRevision that was cloned, upgraded to, or merged into the files, last: the one that
	// status.upstreamLock names. That one cannot be deleted before.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Upstream string `json:"upstream,omitempty"`
	// upstreamDigest is the digest of what was cloned, upgraded to, or merged into the files, last, wherever it came from.
	// +optional
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64})?$`
	UpstreamDigest string `json:"upstreamDigest,omitempty"`
	// imported tells that the revision came from the external repository that its Repository names, and not from a user.
	// +optional
	Imported bool `json:"imported,omitempty"`
}

// External is where a revision lies outside.
type External struct {
	// ref is the tag or the branch.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Ref string `json:"ref,omitempty"`
	// id is the commit, or the digest, that it led to when it was read or written.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
	// branch tells that ref is a branch: the revision is a placeholder, and follows it.
	// +optional
	Branch bool `json:"branch,omitempty"`
}

// Served is metadata of the object served.
type Served struct {
	// managedFields are those of the object served, as JSON. Those in metadata are about this object.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ManagedFields string `json:"managedFields,omitempty"`
	// ownerReferences are those of the object served. In metadata, they would have this object deleted without being asked.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=64
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
}

// PackageRevisionList is a list of PackageRevisions.
//
// +kubebuilder:object:root=true
type PackageRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PackageRevision `json:"items"`
}

// PackageNumber gives out the revision numbers of one package: a number belongs to the revision that holds it here until it is
// published with it. It is named after repository and package, as revisions are, without a workspace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource
// +kubebuilder:printcolumn:name="NUMBER",type=integer,JSONPath=`.number`
// +kubebuilder:printcolumn:name="IMPORTED",type=integer,JSONPath=`.imported`
// +kubebuilder:printcolumn:name="HOLDER",type=string,JSONPath=`.holder`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type PackageNumber struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// number is the last one that was given out; 0 if none was.
	// +kubebuilder:validation:Minimum=0
	Number int `json:"number"`
	// imported is the highest number that a revision outside of the WDS has, which is imported or is about to be: no approval gives
	// a number up to it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Imported int `json:"imported,omitempty"`
	// holder is the name of the PackageRevision of this group that has the number; empty if it was given to none.
	// +kubebuilder:validation:MaxLength=253
	Holder string `json:"holder"`
	// holderUID is its UID.
	// +kubebuilder:validation:MaxLength=64
	HolderUID string `json:"holderUID"`
}

// PackageNumberList is a list of PackageNumbers.
//
// +kubebuilder:object:root=true
type PackageNumberList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PackageNumber `json:"items"`
}
