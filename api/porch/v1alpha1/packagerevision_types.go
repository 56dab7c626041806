package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PackageRevision is one revision of a package in a repository.
//
// A revision is created without a name; the server names it <repository>.<package>.<workspaceName>, with the slashes of the package
// as dots.
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

// PackageRevisionLifecycle is where a revision is between draft and deletion.
type PackageRevisionLifecycle string

// Lifecycles. An empty one is a Draft.
const (
	LifecycleDraft            PackageRevisionLifecycle = "Draft"
	LifecycleProposed         PackageRevisionLifecycle = "Proposed"
	LifecyclePublished        PackageRevisionLifecycle = "Published"
	LifecycleDeletionProposed PackageRevisionLifecycle = "DeletionProposed"
)

// Published tells whether revisions at that point are or were published.
func (l PackageRevisionLifecycle) Published() bool {
	return l == LifecyclePublished || l == LifecycleDeletionProposed
}

// PackageRevisionSpec is what its author says of a revision.
type PackageRevisionSpec struct {
	// PackageName is the package, a path in the repository.
	PackageName string `json:"packageName,omitempty"`
	// RepositoryName is the name of a Repository in the same namespace.
	RepositoryName string `json:"repository,omitempty"`
	// WorkspaceName tells the revisions of a package apart; it does not change.
	WorkspaceName string `json:"workspaceName,omitempty"`
	// Revision is 0 until the revision is published, then counts from 1. -1 is content of a main branch. Set by the server.
	// +optional
	// +kubebuilder:default=0
	Revision int `json:"revision,omitempty"`
	// Parent is deprecated.
	Parent *ParentReference `json:"parent,omitempty"`
	// Lifecycle is where the revision is; Draft if empty.
	Lifecycle PackageRevisionLifecycle `json:"lifecycle,omitempty"`
	// Tasks say how the content came about: at a creation at most one, which is carried out; the server adds to it.
	// +optional
	// +listType=atomic
	Tasks []Task `json:"tasks,omitempty"`
	// ReadinessGates name conditions that must be True before the revision is proposed or approved.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	ReadinessGates []ReadinessGate `json:"readinessGates,omitempty"`
	// PackageMetadata is that of the Kptfile.
	PackageMetadata *PackageMetadata `json:"packageMetadata,omitempty"`
}

// ParentReference is deprecated.
type ParentReference struct {
	Name string `json:"name"`
}

// ReadinessGate names a condition.
type ReadinessGate struct {
	ConditionType string `json:"conditionType"`
}

// PackageMetadata is the metadata of a Kptfile.
type PackageMetadata struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// TaskType says which member of a Task is meant.
type TaskType string

// Types of tasks. Users may ask for the first four; the others are history.
const (
	TaskTypeInit    TaskType = "init"
	TaskTypeClone   TaskType = "clone"
	TaskTypeEdit    TaskType = "edit"
	TaskTypeUpgrade TaskType = "upgrade"
	TaskTypeRender  TaskType = "render"
	TaskTypePush    TaskType = "push"
)

// Task is a step of the making of a revision.
type Task struct {
	Type    TaskType                `json:"type"`
	Init    *PackageInitTaskSpec    `json:"init,omitempty"`
	Clone   *PackageCloneTaskSpec   `json:"clone,omitempty"`
	Edit    *PackageEditTaskSpec    `json:"edit,omitempty"`
	Upgrade *PackageUpgradeTaskSpec `json:"upgrade,omitempty"`
}

// PackageInitTaskSpec makes an empty package.
type PackageInitTaskSpec struct {
	Subpackage  string   `json:"subpackage,omitempty"`
	Description string   `json:"description,omitempty"`
	Keywords    []string `json:"keywords,omitempty"`
	Site        string   `json:"site,omitempty"`
}

// PackageCloneTaskSpec makes a package from another one, which is its upstream from then on.
type PackageCloneTaskSpec struct {
	Upstream UpstreamPackage `json:"upstreamRef,omitempty"`
}

// PackageEditTaskSpec makes a revision from a published one of the same package.
type PackageEditTaskSpec struct {
	Source *PackageRevisionRef `json:"sourceRef,omitempty"`
}

// PackageMergeStrategy is how an upgrade merges.
type PackageMergeStrategy string

// Strategies. ResourceMerge is the default.
const (
	ResourceMerge      PackageMergeStrategy = "resource-merge"
	FastForward        PackageMergeStrategy = "fast-forward"
	ForceDeleteReplace PackageMergeStrategy = "force-delete-replace"
	CopyMerge          PackageMergeStrategy = "copy-merge"
)

// PackageUpgradeTaskSpec makes a revision from a published one of the same package and a newer revision of its upstream.
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

// RepositoryType says what a package lies in.
type RepositoryType string

// Types of what an upstream lies in.
const (
	RepositoryTypeGit RepositoryType = "git"
	RepositoryTypeOCI RepositoryType = "oci"
)

// UpstreamPackage is where a package is cloned from: exactly one of its members.
type UpstreamPackage struct {
	Type        RepositoryType      `json:"type,omitempty"`
	Git         *GitPackage         `json:"git,omitempty"`
	OCI         *OCIPackage         `json:"oci,omitempty"`
	UpstreamRef *PackageRevisionRef `json:"upstreamRef,omitempty"`
}

// GitPackage is a directory at a reference of a git repository.
type GitPackage struct {
	Repo      string    `json:"repo,omitempty"`
	Ref       string    `json:"ref,omitempty"`
	Directory string    `json:"directory,omitempty"`
	SecretRef SecretRef `json:"secretRef,omitempty"`
}

// OCIPackage is an image.
type OCIPackage struct {
	Image string `json:"image,omitempty"`
}

// SecretRef names a Secret in the same namespace.
type SecretRef struct {
	Name string `json:"name"`
}

// PackageRevisionStatus is what the server says of a revision.
type PackageRevisionStatus struct {
	// UpstreamLock is what the content was cloned from, or upgraded to, last.
	UpstreamLock *Locator `json:"upstreamLock,omitempty"`
	// SelfLock is where the revision is stored.
	SelfLock *Locator `json:"selfLock,omitempty"`
	// PublishedBy is the user who approved it, PublishedAt when.
	PublishedBy string       `json:"publishedBy,omitempty"`
	PublishedAt *metav1.Time `json:"publishTimestamp,omitempty"`
	// Deployment tells that the repository is one that is deployed from.
	Deployment bool `json:"deployment,omitempty"`
	// Conditions are those of the Kptfile, and of whoever keeps a gate.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []Condition `json:"conditions,omitempty"`
}

// Locator says where content lies.
type Locator struct {
	Type RepositoryType `json:"type,omitempty"`
	Git  *GitLock       `json:"git,omitempty"`
	OCI  *OCILock       `json:"oci,omitempty"`
}

// OCILock is an image at a digest.
type OCILock struct {
	Image  string `json:"image,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// GitLock is content at a commit.
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

// ConditionPipelinePassed says whether the pipeline of the package passed when it was rendered last. Owner: package-server.
const ConditionPipelinePassed = "PackagePipelinePassed"

// LatestRevisionLabel is on the latest published revision of each package. Users may not set it.
const LatestRevisionLabel = "kpt.dev/latest-revision"
