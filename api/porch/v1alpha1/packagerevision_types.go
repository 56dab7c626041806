package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PackageRevision is one revision of a package in a repository.
//
// Create a PackageRevision without a name: the server names it
// <repository>.<package>.<workspaceName>, and replaces the slashes of the package by dots.
//
// +kubebuilder:object:root=true
type PackageRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PackageRevisionSpec   `json:"spec,omitempty"`
	Status PackageRevisionStatus `json:"status,omitempty"`
}

// PackageRevisionList is a list of PackageRevisions.
//
// +kubebuilder:object:root=true
type PackageRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PackageRevision `json:"items"`
}

// PackageRevisionLifecycle is the stage of a revision, from draft to proposed for deletion.
type PackageRevisionLifecycle string

// Lifecycles. Empty means Draft.
const (
	LifecycleDraft            PackageRevisionLifecycle = "Draft"
	LifecycleProposed         PackageRevisionLifecycle = "Proposed"
	LifecyclePublished        PackageRevisionLifecycle = "Published"
	LifecycleDeletionProposed PackageRevisionLifecycle = "DeletionProposed"
)

// Published reports whether a revision in this stage has been published. A revision that is
// proposed for deletion has.
func (l PackageRevisionLifecycle) Published() bool {
	return l == LifecyclePublished || l == LifecycleDeletionProposed
}

// PackageRevisionSpec is the desired state of a PackageRevision.
type PackageRevisionSpec struct {
	// PackageName is the path of the package in the repository.
	PackageName string `json:"packageName,omitempty"`
	// RepositoryName is the name of a Repository in the same namespace.
	RepositoryName string `json:"repository,omitempty"`
	// WorkspaceName identifies the revision among the revisions of the package. It is immutable.
	WorkspaceName string `json:"workspaceName,omitempty"`
	// Revision is the number of the revision, set by the server: 0 before it is published, then
	// counting from 1. It is -1 for a placeholder, which has the content of the branch.
	// +optional
	// +kubebuilder:default=0
	Revision int `json:"revision,omitempty"`
	// Parent is deprecated.
	Parent *ParentReference `json:"parent,omitempty"`
	// Lifecycle is Draft, Proposed, Published or DeletionProposed. The default is Draft.
	Lifecycle PackageRevisionLifecycle `json:"lifecycle,omitempty"`
	// Tasks are the history of the content. A create request has at most one task, which the server
	// carries out. The server appends later tasks.
	// +optional
	// +listType=atomic
	Tasks []Task `json:"tasks,omitempty"`
	// ReadinessGates name conditions that must be True before the revision can be proposed or
	// approved.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	ReadinessGates []ReadinessGate `json:"readinessGates,omitempty"`
	// PackageMetadata is the metadata of the Kptfile.
	PackageMetadata *PackageMetadata `json:"packageMetadata,omitempty"`
}

// ParentReference is deprecated.
type ParentReference struct {
	Name string `json:"name"`
}

// ReadinessGate names a condition that must be True before the revision can be proposed or
// approved.
type ReadinessGate struct {
	ConditionType string `json:"conditionType"`
}

// PackageMetadata is the metadata of a Kptfile.
type PackageMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TaskType is the type of a Task.
type TaskType string

// Types of tasks. Users may request the first four. The others are history only.
const (
	TaskTypeInit    TaskType = "init"
	TaskTypeClone   TaskType = "clone"
	TaskTypeEdit    TaskType = "edit"
	TaskTypeUpgrade TaskType = "upgrade"
	TaskTypeRender  TaskType = "render"
	TaskTypePush    TaskType = "push"
)

// Task is one step in the history of a revision. The field that its type names is set.
type Task struct {
	Type    TaskType                `json:"type"`
	Init    *PackageInitTaskSpec    `json:"init,omitempty"`
	Clone   *PackageCloneTaskSpec   `json:"clone,omitempty"`
	Edit    *PackageEditTaskSpec    `json:"edit,omitempty"`
	Upgrade *PackageUpgradeTaskSpec `json:"upgrade,omitempty"`
}

// PackageInitTaskSpec creates an empty package.
type PackageInitTaskSpec struct {
	Subpackage  string   `json:"subpackage,omitempty"`
	Description string   `json:"description,omitempty"`
	Keywords    []string `json:"keywords,omitempty"`
	Site        string   `json:"site,omitempty"`
}

// PackageCloneTaskSpec creates a package from another package, which becomes its upstream.
type PackageCloneTaskSpec struct {
	Upstream UpstreamPackage `json:"upstreamRef,omitempty"`
}

// PackageEditTaskSpec creates a revision from a published revision of the same package.
type PackageEditTaskSpec struct {
	Source *PackageRevisionRef `json:"sourceRef,omitempty"`
}

// PackageMergeStrategy says how an upgrade merges the new upstream with local changes.
type PackageMergeStrategy string

// Strategies. ResourceMerge is the default.
const (
	ResourceMerge      PackageMergeStrategy = "resource-merge"
	FastForward        PackageMergeStrategy = "fast-forward"
	ForceDeleteReplace PackageMergeStrategy = "force-delete-replace"
	CopyMerge          PackageMergeStrategy = "copy-merge"
)

// PackageUpgradeTaskSpec creates a revision from a published revision of the same package and a
// newer revision of its upstream.
type PackageUpgradeTaskSpec struct {
	OldUpstream             PackageRevisionRef   `json:"oldUpstreamRef,omitempty"`
	NewUpstream             PackageRevisionRef   `json:"newUpstreamRef,omitempty"`
	LocalPackageRevisionRef PackageRevisionRef   `json:"localPackageRevisionRef,omitempty"`
	Strategy                PackageMergeStrategy `json:"strategy,omitempty"`
}

// PackageRevisionRef names a PackageRevision in the same namespace.
type PackageRevisionRef struct {
	Name string `json:"name"`
}

// RepositoryType is the type of storage of a package.
type RepositoryType string

// Types of repositories.
const (
	RepositoryTypeGit RepositoryType = "git"
	RepositoryTypeOCI RepositoryType = "oci"
)

// UpstreamPackage is the package to clone. Exactly one of git, oci and upstreamRef is set.
type UpstreamPackage struct {
	Type        RepositoryType      `json:"type,omitempty"`
	Git         *GitPackage         `json:"git,omitempty"`
	OCI         *OCIPackage         `json:"oci,omitempty"`
	UpstreamRef *PackageRevisionRef `json:"upstreamRef,omitempty"`
}

// GitPackage is a directory in a git repository, at a branch, tag or commit.
type GitPackage struct {
	Repo      string    `json:"repo,omitempty"`
	Ref       string    `json:"ref,omitempty"`
	Directory string    `json:"directory,omitempty"`
	SecretRef SecretRef `json:"secretRef,omitempty"`
}

// OCIPackage is a package in an OCI registry.
type OCIPackage struct {
	Image string `json:"image,omitempty"`
}

// SecretRef names a Secret in the same namespace.
type SecretRef struct {
	Name string `json:"name"`
}

// PackageRevisionStatus is the observed state of a PackageRevision.
type PackageRevisionStatus struct {
	// UpstreamLock is the upstream that was last cloned or upgraded to.
	UpstreamLock *Locator `json:"upstreamLock,omitempty"`
	// SelfLock is the location where the revision is stored.
	SelfLock *Locator `json:"selfLock,omitempty"`
	// PublishedBy is the user who approved the revision.
	PublishedBy string `json:"publishedBy,omitempty"`
	// PublishedAt is when the revision was approved.
	PublishedAt *metav1.Time `json:"publishTimestamp,omitempty"`
	// Deployment is true if packages are deployed from the repository: spec.deployment of the
	// Repository.
	Deployment bool `json:"deployment,omitempty"`
	// Authors are the users who created the revision or changed its content, in the order of their
	// first change. Changes of conditions do not count. The server sets the list from the
	// authenticated requests, and nobody can change it. Automatic approval requires that the
	// controller is the only author. The list is empty if the revision was imported.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Authors []string `json:"authors,omitempty"`
	// ContentDigest identifies the content of the revision: all files, without the conditions in
	// the Kptfile. The server sets it. An approval that contains another digest is refused.
	ContentDigest string `json:"contentDigest,omitempty"`
	// Conditions of the revision, from the Kptfile and from controllers that set readiness gates.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// Locator is the location of content.
type Locator struct {
	Type RepositoryType `json:"type,omitempty"`
	Git  *GitLock       `json:"git,omitempty"`
	OCI  *OCILock       `json:"oci,omitempty"`
}

// OCILock is an image, identified by its digest.
type OCILock struct {
	Image  string `json:"image,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// GitLock is a directory in a git repository at a commit.
type GitLock struct {
	Repo      string `json:"repo,omitempty"`
	Directory string `json:"directory,omitempty"`
	Ref       string `json:"ref,omitempty"`
	Commit    string `json:"commit,omitempty"`
}

// ConditionStatus is the status of a Condition.
type ConditionStatus string

// Statuses of a Condition.
const (
	ConditionTrue    ConditionStatus = "True"
	ConditionFalse   ConditionStatus = "False"
	ConditionUnknown ConditionStatus = "Unknown"
)

// Condition is one observation of a revision.
type Condition struct {
	Type    string          `json:"type"`
	Status  ConditionStatus `json:"status"`
	Reason  string          `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
}

// ConditionPipelinePassed reports whether the pipeline of the package passed in the last render.
// Owner: package-server.
const ConditionPipelinePassed = "PackagePipelinePassed"

// ConditionTransactionValidated reports whether a Transaction of pkg.crossplane.io has validated
// what the publication of the revision changes on clusters, for its present content. It is a
// readiness gate of each revision that has CustomResourceDefinitions, or whose Kptfile declares
// dependencies. Owner: the controller of package gates. The message names the Transaction.
//
// Reasons when True:
//   - AllValidationsPassed
//
// Reasons when False are those of the condition Validated of a Transaction.
//
// Reasons when Unknown:
//   - ValidationPending: the Transaction has not ended.
//   - ContentChanged
const ConditionTransactionValidated = "PackageTransactionValidated"

// ReasonContentChanged is the reason of conditions that were True for earlier content of the
// revision. They are Unknown until their owners set them again. package-server sets it.
const ReasonContentChanged = "ContentChanged"

// LatestRevisionLabel is on the latest published revision of each package: the highest number or,
// in a package without numbers, the highest semantic version that is not a pre-release. The server
// sets it; users cannot.
const LatestRevisionLabel = "kpt.dev/latest-revision"
