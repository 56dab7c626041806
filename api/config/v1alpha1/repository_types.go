package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Repository holds packages. The packages of a Repository of type hub are stored only in this API
// server. Those of types git and oci are imported from a git repository or an OCI registry, and
// revisions that are published here are exported to it.
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

	// spec is the desired state.
	// +optional
	// +kubebuilder:default={type: hub}
	Spec RepositorySpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status RepositoryStatus `json:"status,omitempty"`
}

// OfCluster reports whether the packages are, or were, delivered to a cluster: the Repository was
// created for one, or has the condition Detached.
func (r *Repository) OfCluster() bool {
	return r.MadeForCluster() || meta.FindStatusCondition(r.Status.Conditions, RepositoryConditionDetached) != nil
}

// MadeForCluster reports whether the Repository was created for the cluster of its name. A copy
// with another name was not.
func (r *Repository) MadeForCluster() bool {
	cluster, made := r.Annotations[ClusterAnnotation]
	return made && cluster == r.Name
}

// Detached reports whether the cluster to which the packages were delivered no longer exists.
func (r *Repository) Detached() bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, RepositoryConditionDetached)
}

// RepositoryType says where the packages of a Repository are stored.
//
// +kubebuilder:validation:Enum=hub;git;oci
type RepositoryType string

// Types of repositories.
const (
	// RepositoryTypeHub stores packages only in this API server.
	RepositoryTypeHub RepositoryType = "hub"
	// RepositoryTypeGit also stores them in a git repository.
	RepositoryTypeGit RepositoryType = "git"
	// RepositoryTypeOCI also stores them in an OCI registry.
	RepositoryTypeOCI RepositoryType = "oci"
)

// RepositoryContent is deprecated.
//
// +kubebuilder:validation:Enum=Package;""
type RepositoryContent string

// RepositoryContentPackage is the only valid content.
const RepositoryContentPackage RepositoryContent = "Package"

// ExportPolicy enables or disables the export of published revisions.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type ExportPolicy string

// Policies of export.
const (
	// ExportEnabled is the default.
	ExportEnabled ExportPolicy = "Enabled"
	// ExportDisabled means that the git repository or registry is only read.
	ExportDisabled ExportPolicy = "Disabled"
)

// RepositorySpec says where packages are stored. The location is immutable: create another
// Repository instead.
//
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type is immutable: create another Repository instead"
// +kubebuilder:validation:XValidation:rule="self.type == 'git' ? has(self.git) : true",message="git.repo is required with type git"
// +kubebuilder:validation:XValidation:rule="self.type == 'oci' ? has(self.oci) : true",message="oci.registry is required with type oci"
// +kubebuilder:validation:XValidation:rule="has(self.git) ? self.type == 'git' : true",message="git needs type git"
// +kubebuilder:validation:XValidation:rule="has(self.oci) ? self.type == 'oci' : true",message="oci needs type oci"
// +kubebuilder:validation:XValidation:rule="self.type == 'hub' ? !has(self.sync) && !has(self.export) : true",message="sync and export need type git or oci: a hub repository has nothing to sync with"
type RepositorySpec struct {
	// description of the repository, for users.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// deployment says that packages are deployed from this repository. A package that is cloned
	// into it gets a package context.
	// +optional
	Deployment bool `json:"deployment,omitempty"`

	// type is hub (packages are stored only in this API server), git or oci.
	// +optional
	// +kubebuilder:default=hub
	Type RepositoryType `json:"type,omitempty"`

	// content is deprecated. Its only value is Package.
	// +optional
	// +kubebuilder:default=Package
	Content *RepositoryContent `json:"content,omitempty"`

	// sync says when the git repository or registry is read.
	// +optional
	Sync *RepositorySync `json:"sync,omitempty"`

	// export enables or disables writing published revisions to the git repository or registry:
	// Enabled (the default) or Disabled.
	// +optional
	Export ExportPolicy `json:"export,omitempty"`

	// git is the git repository, for type git.
	// +optional
	Git *GitRepository `json:"git,omitempty"`

	// oci is the OCI registry, for type oci.
	// +optional
	Oci *OciRepository `json:"oci,omitempty"`
}

// Exports reports whether published revisions are written to the git repository or registry.
func (s *RepositorySpec) Exports() bool {
	return s.Type != RepositoryTypeHub && s.Type != "" && s.Export != ExportDisabled
}

// RepositorySync says when a repository is read.
type RepositorySync struct {
	// runOnceAt is a time at which the repository is read once, in addition to the schedule.
	// +optional
	RunOnceAt *metav1.Time `json:"runOnceAt,omitempty"`

	// schedule says when the repository is read, in UTC: in cron format ("*/10 * * * *" is every
	// ten minutes), or as an interval ("@every 30s"). The default is every five minutes. The
	// shortest interval is ten seconds.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule,omitempty"`
}

// GitRepository is a git repository.
//
// +kubebuilder:validation:XValidation:rule="self.repo == oldSelf.repo",message="git.repo is immutable: create another Repository instead"
// +kubebuilder:validation:XValidation:rule="self.branch == oldSelf.branch",message="git.branch is immutable: create another Repository instead"
// +kubebuilder:validation:XValidation:rule="has(self.directory) == has(oldSelf.directory) && (!has(self.directory) || self.directory == oldSelf.directory)",message="git.directory is immutable: create another Repository instead"
// +kubebuilder:validation:XValidation:rule="has(self.rootPackage) == has(oldSelf.rootPackage) && (!has(self.rootPackage) || self.rootPackage == oldSelf.rootPackage)",message="git.rootPackage is immutable: create another Repository instead"
type GitRepository struct {
	// repo is the URL of the repository: https://host/path, ssh://user@host/path, user@host:path,
	// or, if a flag of the controller allows it, file:///path. http:// is allowed for loopback
	// addresses, and for others with insecure. User names and passwords belong in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^(https?|ssh|file)://[^ ]+$') || self.matches('^[^ :/@]+@[^ :/]+:[^ ]+$')",message="git.repo must be an https://, ssh:// or file:// URL, or user@host:path"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/]*@')",message="git.repo must not hold a user name or password: put them in a Secret and name it in git.secretRef"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ssh://[^/]*:[^/]*@')",message="git.repo must not hold a password: put it in a Secret and name it in git.secretRef"
	Repo string `json:"repo"`

	// branch is the branch that holds the packages. Exported revisions are committed to it.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:] ~^:?*\\\\[\\\\\\\\]|[.][.]|@[{]|//|^[/.-]|[/.]$|/[.]')",message="git.branch must be the name of a branch"
	Branch string `json:"branch,omitempty"`

	// createBranch allows the first export to create the branch if it does not exist.
	// +optional
	CreateBranch bool `json:"createBranch,omitempty"`

	// directory holds the packages. The default is the root of the repository. Each directory below
	// it that has a Kptfile is a package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.]?(/|$)|[[:cntrl:]\\\\\\\\]|//')",message="git.directory must be a path in the repository"
	Directory string `json:"directory,omitempty"`

	// rootPackage is the name of the only package of the repository, if its files are in the
	// directory itself, not in one below it. Its tags are those of the directory: v1 for the root.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="git.rootPackage must be a lower-case label"
	RootPackage string `json:"rootPackage,omitempty"`

	// insecure allows a repo of http://, whose traffic is not encrypted: others can read the
	// credentials and the packages, and change them.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// secretRef names a Secret in the same namespace that holds the credentials. Its keys are
	// username and password, or token; ssh-privatekey, passphrase and known_hosts; ca.crt. Its type
	// is kubernetes.io/basic-auth, kubernetes.io/ssh-auth or starling.io/repository. Only users who
	// may get the Secret may set the field.
	// +optional
	SecretRef SecretRef `json:"secretRef,omitempty"`

	// author of the commits that export revisions.
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

// OciRepository is an OCI registry, with a path in it.
//
// +kubebuilder:validation:XValidation:rule="self.registry == oldSelf.registry",message="oci.registry is immutable: create another Repository instead"
type OciRepository struct {
	// registry is a host and a path. A package is stored at <registry>/<package>, and each of its
	// revisions has a tag. Plain HTTP is used with loopback addresses only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$')",message="oci.registry must be host[:port][/path], without a scheme"
	Registry string `json:"registry"`

	// packages lists the packages to read. Without it, packages are found in the catalog of the
	// registry, which some registries do not have.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	Packages []string `json:"packages,omitempty"`

	// secretRef names a Secret in the same namespace that holds the credentials. Its keys are
	// .dockerconfigjson, or username and password, or token; ca.crt. Its type is
	// kubernetes.io/dockerconfigjson, kubernetes.io/basic-auth or starling.io/repository. Only
	// users who may get the Secret may set the field.
	// +optional
	SecretRef SecretRef `json:"secretRef,omitempty"`
}

// SecretRef names a Secret.
type SecretRef struct {
	// name of the Secret. If empty, there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RepositoryStatus is the observed state of a Repository.
type RepositoryStatus struct {
	// conditions are Ready, Consistent, Exported, Detached and Deployed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation for which this status was computed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastFullSyncTime is when the repository was last read completely.
	// +optional
	LastFullSyncTime *metav1.Time `json:"lastFullSyncTime,omitempty"`

	// nextFullSyncTime is when the repository will be read next.
	// +optional
	NextFullSyncTime *metav1.Time `json:"nextFullSyncTime,omitempty"`

	// observedRunOnceAt is the last spec.sync.runOnceAt that was carried out.
	// +optional
	ObservedRunOnceAt *metav1.Time `json:"observedRunOnceAt,omitempty"`

	// observedExportAgain is the last value of the annotation starling.io/export-again that was
	// carried out.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	ObservedExportAgain string `json:"observedExportAgain,omitempty"`

	// packageCount is the number of package revisions in the repository. The field has its name
	// from Porch.
	// +optional
	PackageCount int `json:"packageCount,omitempty"`

	// packages is the number of packages in the repository.
	// +optional
	Packages int `json:"packages,omitempty"`

	// gitCommitHash is the commit of the branch from which the placeholder revisions were read.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	GitCommitHash string `json:"gitCommitHash,omitempty"`

	// errors of single packages; other packages are not affected. At most 20 are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Errors []RepositoryError `json:"errors,omitempty"`
}

// RepositoryError is an error of one package or revision.
type RepositoryError struct {
	// ref is the tag or branch. It is empty if the error is about the package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Ref string `json:"ref,omitempty"`
	// package is the path of the package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package,omitempty"`
	// message says what is wrong, and what to do.
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
