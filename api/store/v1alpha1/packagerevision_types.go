package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// PackageRevision stores a PackageRevision of porch.kpt.dev. It has the same namespace, name,
// labels, annotations and finalizers as the served object. Its files are stored in ContentChunks,
// by their digest.
//
// It has no status subresource, so that one write changes spec, status and content together.
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

	// spec of the served object. lifecycle is always set here, because field selectors use it.
	Spec porchv1alpha1.PackageRevisionSpec `json:"spec"`
	// status of the served object.
	// +optional
	Status porchv1alpha1.PackageRevisionStatus `json:"status,omitempty"`
	// content identifies the files.
	Content Content `json:"content"`
	// external is the location of the revision in the git repository or registry of its Repository.
	// It is empty if the revision is stored only here. Owner: the repositories controller.
	// +optional
	External External `json:"external,omitempty"`
	// served holds metadata of the served object that cannot be in the metadata of this object,
	// where it would have another effect.
	// +optional
	Served Served `json:"served,omitempty"`
}

// Content identifies the files of a revision, and their origin. Everything that it names is stored
// as long as the revision exists.
type Content struct {
	// digest of the files.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
	// files is the number of files.
	// +kubebuilder:validation:Minimum=0
	Files int32 `json:"files"`
	// base is the digest of the files that the revision was created from: of the revision that was
	// copied or upgraded, or of the upstream that was cloned. It is empty if the revision was
	// created empty, or imported.
	// +optional
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64})?$`
	Base string `json:"base,omitempty"`
	// upstream is the name of the PackageRevision that was last cloned, upgraded to, or merged into
	// the files. It is the one in status.upstreamLock. It cannot be deleted while this revision
	// exists.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Upstream string `json:"upstream,omitempty"`
	// upstreamDigest is the digest of the content that was last cloned, upgraded to, or merged into
	// the files, from any origin.
	// +optional
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64})?$`
	UpstreamDigest string `json:"upstreamDigest,omitempty"`
	// imported is true if the revision was imported from the git repository or registry of its
	// Repository, and not created by a user.
	// +optional
	Imported bool `json:"imported,omitempty"`
}

// External is the location of a revision in a git repository or registry.
type External struct {
	// ref is the tag or the branch.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Ref string `json:"ref,omitempty"`
	// id is the commit or digest to which ref pointed when the revision was last read or written.
	// Without ref, it is that of a tag which the repository has lost.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
	// branch is true if ref is a branch. Then the revision is a placeholder and follows the branch.
	// +optional
	Branch bool `json:"branch,omitempty"`
	// moved is the commit or digest to which the tag points, if that has other content than was
	// imported.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Moved string `json:"moved,omitempty"`
	// branchChanged is the commit of the branch at which the export left the branch as it was,
	// because the directory of the package had content there that is not from this revision's
	// package. Then the revision has its tag only. It is empty if the export added to the branch.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	BranchChanged string `json:"branchChanged,omitempty"`
}

// Served is metadata of the served object.
type Served struct {
	// managedFields of the served object, as JSON. The managedFields in metadata are those of this
	// object.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	ManagedFields string `json:"managedFields,omitempty"`
	// filesManagedFields are the managedFields of the PackageRevisionResources, as JSON. They are
	// empty unless a user applies files server-side.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	FilesManagedFields string `json:"filesManagedFields,omitempty"`
	// ownerReferences of the served object. In metadata, the garbage collector would delete this
	// object because of them.
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

// PackageNumber allocates the revision numbers of one package. The last number belongs to the
// revision that is its holder, until that revision is published with it. Its name is that of a
// revision of the package, without the workspace name.
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

	// number is the last number that was allocated; 0 if none was.
	// +kubebuilder:validation:Minimum=0
	Number int `json:"number"`
	// imported is the highest number of a revision in the git repository or registry, whether it is
	// imported yet or not. Approvals allocate only higher numbers.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Imported int `json:"imported,omitempty"`
	// holder is the name of the PackageRevision of this API group to which the number is allocated;
	// empty if there is none.
	// +kubebuilder:validation:MaxLength=253
	Holder string `json:"holder"`
	// holderUID is the UID of the holder.
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
