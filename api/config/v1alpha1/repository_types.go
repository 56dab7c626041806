package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Repository is where packages lie. Those of type hub lie in this API server and nowhere else. Those of type git and oci are imported
// from a git repository or an OCI registry, and what is published here is exported to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=repo
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Content",type=string,JSONPath=`.spec.content`
// +kubebuilder:printcolumn:name="Sync Schedule",type=string,JSONPath=`.spec.sync.schedule`
// +kubebuilder:printcolumn:name="Deployment",type=boolean,JSONPath=`.spec.deployment`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec['git','oci']['repo','registry']`
// +kubebuilder:printcolumn:name="Branch",type=string,JSONPath=`.spec.git.branch`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="Revisions",type=integer,priority=1,JSONPath=`.status.packageCount`
// +kubebuilder:printcolumn:name="Synced",type=date,priority=1,JSONPath=`.status.lastFullSyncTime`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="metadata.name must be a DNS label: at most 63 lower-case letters, digits and '-', with a letter or digit at both ends"
type Repository struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user asks for.
	// +optional
	// +kubebuilder:default={type: hub}
	Spec RepositorySpec `json:"spec,omitempty"`

	// status is what was observed.
	// +optional
	Status RepositoryStatus `json:"status,omitempty"`
}

// OfCluster tells whether the packages go, or went, to a cluster: the Repository was made for one, or is said to be one's.
func (r *Repository) OfCluster() bool {
	return r.MadeForCluster() || meta.FindStatusCondition(r.Status.Conditions, RepositoryConditionDetached) != nil
}

// MadeForCluster tells whether the Repository was made for the cluster of its name. A copy under another name was not.
func (r *Repository) MadeForCluster() bool {
	cluster, made := r.Annotations[ClusterAnnotation]
	return made && cluster == r.Name
}

// Detached tells whether the cluster that the packages go to has left.
func (r *Repository) Detached() bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, RepositoryConditionDetached)
}

// RepositoryType says what a repository is.
//
// +kubebuilder:validation:Enum=hub;git;oci
type RepositoryType string

// Types of repositories.
const (
	// RepositoryTypeHub keeps packages in this API server alone.
	RepositoryTypeHub RepositoryType = "hub"
	// RepositoryTypeGit also keeps them in a git repository.
	RepositoryTypeGit RepositoryType = "git"
	// RepositoryTypeOCI also keeps them in an OCI registry.
	RepositoryTypeOCI RepositoryType = "oci"
)

// RepositoryContent is deprecated.
//
// +kubebuilder:validation:Enum=Package;""
type RepositoryContent string

// RepositoryContentPackage is the only content there is.
const RepositoryContentPackage RepositoryContent = "Package"

// ExportPolicy says whether published revisions are exported.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type ExportPolicy string

// Policies of export.
const (
	// ExportEnabled also is the default.
	ExportEnabled ExportPolicy = "Enabled"
	// ExportDisabled makes the git repository or registry one that is only read.
	ExportDisabled ExportPolicy = "Disabled"
)

// RepositorySpec says where packages lie. Where they lie cannot be changed: make another Repository.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: make another Repository"
// +kubebuilder:validation:XValidation:rule="self.type == 'git' ? has(self.git) : true",message="git.repo is required with type git"
// +kubebuilder:validation:XValidation:rule="self.type == 'oci' ? has(self.oci) : true",message="oci.registry is required with type oci"
// +kubebuilder:validation:XValidation:rule="has(self.git) ? self.type == 'git' : true",message="git needs type git"
// +kubebuilder:validation:XValidation:rule="has(self.oci) ? self.type == 'oci' : true",message="oci needs type oci"
// +kubebuilder:validation:XValidation:rule="self.type == 'hub' ? !has(self.sync) && !has(self.export) : true",message="sync and export need type git or oci: a hub repository has nothing to sync with"
type RepositorySpec struct {
	// description is for people.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// deployment says that packages are deployed from this repository: they get a package context when they are cloned into it.
	// +optional
	Deployment bool `json:"deployment,omitempty"`

	// type is hub (packages lie in this API server), git or oci.
	// +optional
	// +kubebuilder:default=hub
	Type RepositoryType `json:"type,omitempty"`

	// content is deprecated. Its only value is Package.
	// +optional
	// +kubebuilder:default=Package
	Content *RepositoryContent `json:"content,omitempty"`

	// sync says when the git repository or registry is looked at.
	// +optional
	Sync *RepositorySync `json:"sync,omitempty"`

	// export says whether published revisions are written to the git repository or registry: Enabled (the default) or Disabled.
	// +optional
	Export ExportPolicy `json:"export,omitempty"`

	// git says which git repository it is.
	// +optional
	Git *GitRepository `json:"git,omitempty"`

	// oci says which OCI registry it is.
	// +optional
	Oci *OciRepository `json:"oci,omitempty"`
}

// Exports tells whether published revisions are written to where the packages lie.
func (s *RepositorySpec) Exports() bool {
	return s.Type != RepositoryTypeHub && s.Type != "" && s.Export != ExportDisabled
}

// RepositorySync says when a repository is looked at.
type RepositorySync struct {
	// runOnceAt asks for one look at this time, beside the schedule.
	// +optional
	RunOnceAt *metav1.Time `json:"runOnceAt,omitempty"`

	// schedule says when to look, as cron does ("*/10 * * * *" is every ten minutes) or as "@every 30s"; in UTC. Without one it is every five
	// minutes. More often than every ten seconds it is not.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule,omitempty"`
}

// GitRepository is a git repository.
//
// +kubebuilder:validation:XValidation:rule="self.repo == oldSelf.repo",message="git.repo is immutable: make another Repository"
// +kubebuilder:validation:XValidation:rule="self.branch == oldSelf.branch",message="git.branch is immutable: make another Repository"
// +kubebuilder:validation:XValidation:rule="has(self.directory) == has(oldSelf.directory) && (!has(self.directory) || self.directory == oldSelf.directory)",message="git.directory is immutable: make another Repository"
type GitRepository struct {
	// repo is the address of the repository: https://host/path, ssh://user@host/path, user@host:path, or, where whoever runs the controller
	// allows it, file:///path. http:// is for loopback addresses only. User names and passwords stand in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https?|ssh|file)://[^ ]+$') || self.matches('^[^ :/@]+@[^ :/]+:[^ ]+$')",message="git.repo must be an https://, ssh:// or file:// URL, or user@host:path"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/]*@')",message="git.repo must not hold a user name or password: put them in a Secret and name it in git.secretRef"
	Repo string `json:"repo"`

	// branch holds the packages. What is exported is committed to it.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:] ~^:?*\\\\[\\\\\\\\]|[.][.]|@[{]|//|^[/.-]|[/.]$|/[.]')",message="git.branch must be the name of a branch"
	Branch string `json:"branch,omitempty"`

	// createBranch lets the first export make the branch if it is not there.
	// +optional
	CreateBranch bool `json:"createBranch,omitempty"`

	// directory holds the packages; the whole repository does if it is empty. A directory below it with a Kptfile is a package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.]?(/|$)|[[:cntrl:]\\\\\\\\]|//')",message="git.directory must be a path in the repository"
	Directory string `json:"directory,omitempty"`

	// secretRef names a Secret in the same namespace that holds what the server asks for: username and password, or token; ssh-privatekey,
	// passphrase and known_hosts; ca.crt.
	// +optional
	SecretRef SecretRef `json:"secretRef,omitempty"`

	// author of commits that export.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.matches('[<>[:cntrl:]]')",message="git.author must not have <, > or control characters"
	Author string `json:"author,omitempty"`

	// email of the author.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!self.matches('[<>[:cntrl:]]')",message="git.email must not have <, > or control characters"
	Email string `json:"email,omitempty"`
}

// OciRepository is a place in an OCI registry.
//
// +kubebuilder:validation:XValidation:rule="self.registry == oldSelf.registry",message="oci.registry is immutable: make another Repository"
type OciRepository struct {
	// registry is a host and a path: a package lies at <registry>/<package>, each revision under a tag. Plain HTTP is spoken with loopback
	// addresses only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$')",message="oci.registry must be host[:port][/path], without a scheme"
	Registry string `json:"registry"`

	// packages names packages that are looked for. Without it they are found by the registry's catalogue, which not every registry has.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Packages []string `json:"packages,omitempty"`

	// secretRef names a Secret in the same namespace that holds what the registry asks for: .dockerconfigjson, or username and password, or
	// token; ca.crt.
	// +optional
	SecretRef SecretRef `json:"secretRef,omitempty"`
}

// SecretRef names a Secret.
type SecretRef struct {
	// name of the Secret; empty for none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RepositoryStatus is what was observed of a repository.
type RepositoryStatus struct {
	// conditions say how the repository does: Ready, Consistent, Exported, Detached and Deployed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the Repository that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastFullSyncTime is when the repository was last read whole.
	// +optional
	LastFullSyncTime *metav1.Time `json:"lastFullSyncTime,omitempty"`

	// nextFullSyncTime is when the repository will be looked at next.
	// +optional
	NextFullSyncTime *metav1.Time `json:"nextFullSyncTime,omitempty"`

	// observedRunOnceAt is the spec.sync.runOnceAt that was heeded last.
	// +optional
	ObservedRunOnceAt *metav1.Time `json:"observedRunOnceAt,omitempty"`

	// packageCount is how many revisions of packages the repository holds. Its name is Porch's.
	// +optional
	PackageCount int `json:"packageCount,omitempty"`

	// packages is how many packages they are revisions of.
	// +optional
	Packages int `json:"packages,omitempty"`

	// gitCommitHash is the commit of the branch that the placeholder revisions were read from.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GitCommitHash string `json:"gitCommitHash,omitempty"`

	// errors are about single packages; the others are not affected. At most 20 are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Errors []RepositoryError `json:"errors,omitempty"`
}

// RepositoryError is what is wrong with one package or revision.
type RepositoryError struct {
	// ref is the tag or branch; empty if it is about the package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Ref string `json:"ref,omitempty"`
	// package is the path of the package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package,omitempty"`
	// message says what is wrong, and what helps.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// RepositoryList is a list of Repositories.
//
// +kubebuilder:object:root=true
type RepositoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Repository `json:"items"`
}
