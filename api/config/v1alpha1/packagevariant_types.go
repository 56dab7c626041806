package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// PackageVariant keeps a downstream package up to date with an upstream package. It clones the
// upstream, changes the copy as spec says, and creates a draft whenever the upstream, an injected
// object, or the PackageVariant changes. Users propose and approve the drafts, unless the
// annotation approval.nephio.org/policy makes this automatic.
//
// The condition Stalled lists every error in spec at once. Therefore the schema validates little.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="REPOSITORY",type=string,JSONPath=`.spec.downstream.repo`
// +kubebuilder:printcolumn:name="PACKAGE",type=string,JSONPath=`.spec.downstream.package`
// +kubebuilder:printcolumn:name="UPSTREAM",type=string,JSONPath=`.status.upstream.name`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="STALLED",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Stalled')].status`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Ready')].message`
type PackageVariant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec PackageVariantSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status PackageVariantStatus `json:"status,omitempty"`
}

// AdoptionPolicy says what happens to existing revisions of the downstream package.
//
// +kubebuilder:validation:MaxLength=64
type AdoptionPolicy string

// Policies of adoption.
const (
	// AdoptionPolicyAdoptNone never adopts them. It is the default.
	AdoptionPolicyAdoptNone AdoptionPolicy = "adoptNone"
	// AdoptionPolicyAdoptExisting makes the PackageVariant their owner.
	AdoptionPolicyAdoptExisting AdoptionPolicy = "adoptExisting"
)

// DeletionPolicy says what happens to the downstream package when the PackageVariant is deleted, or
// its spec.downstream changes.
//
// +kubebuilder:validation:MaxLength=64
type DeletionPolicy string

// Policies of deletion.
const (
	// DeletionPolicyDelete deletes drafts and proposes the deletion of published revisions. It is
	// the default.
	DeletionPolicyDelete DeletionPolicy = "delete"
	// DeletionPolicyOrphan releases all revisions and leaves them unchanged.
	DeletionPolicyOrphan DeletionPolicy = "orphan"
)

// PackageVariantSpec is the desired state of a PackageVariant.
type PackageVariantSpec struct {
	// upstream is the package that is cloned.
	// +optional
	Upstream *Upstream `json:"upstream,omitempty"`

	// downstream is the package that the PackageVariant creates and updates.
	// +optional
	Downstream *Downstream `json:"downstream,omitempty"`

	// adoptionPolicy is adoptNone (the default) or adoptExisting.
	// +optional
	AdoptionPolicy AdoptionPolicy `json:"adoptionPolicy,omitempty"`

	// deletionPolicy is delete (the default) or orphan.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// labels are set on revisions when they are created or adopted.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are set on revisions when they are created or adopted.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// packageContext changes the ConfigMap kptfile.kpt.dev in the package.
	// +optional
	PackageContext *PackageContext `json:"packageContext,omitempty"`

	// pipeline holds functions that run before the package's own functions.
	// +optional
	Pipeline *Pipeline `json:"pipeline,omitempty"`

	// injectors select the objects of this API server that are copied into the injection points of
	// the package. The first match of each injection point is used.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Injectors []InjectionSelector `json:"injectors,omitempty"`
}

// Upstream selects the package revision that is cloned: by its number, its workspace, both, or a
// tag. It must be published.
type Upstream struct {
	// repo is the name of a Repository in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repo string `json:"repo,omitempty"`

	// package is the path of the package in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package,omitempty"`

	// revision is the number of a published revision, with or without a v (3, "v3"), or latest for
	// the highest one.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Revision *intstr.IntOrString `json:"revision,omitempty"`

	// workspaceName is the workspace name of a published revision.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WorkspaceName string `json:"workspaceName,omitempty"`

	// tag selects the published revision that has the label tag.starling.io/<tag>, and follows the
	// label when it moves to another revision. If several revisions have the label, the highest one
	// is used.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Tag string `json:"tag,omitempty"`
}

// Downstream is the package that a PackageVariant creates and updates.
type Downstream struct {
	// repo is the name of a Repository in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repo string `json:"repo,omitempty"`

	// package is the path of the package in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package,omitempty"`
}

// PackageContext changes the data of the ConfigMap kptfile.kpt.dev. The keys name and package-path
// cannot be changed.
type PackageContext struct {
	// data are the keys that are set, with their values.
	// +optional
	Data map[string]string `json:"data,omitempty"`

	// removeKeys are the keys that are removed, even if they are in data.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	RemoveKeys []string `json:"removeKeys,omitempty"`
}

// Pipeline holds functions, as in a Kptfile.
type Pipeline struct {
	// validators check the objects, without changing them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Validators []Function `json:"validators,omitempty"`

	// mutators change the objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Mutators []Function `json:"mutators,omitempty"`
}

// Function is one function of a pipeline, as in a Kptfile.
type Function struct {
	// image is the container image name of the function.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// tag is the tag of the image, which may be a range of versions.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Tag string `json:"tag,omitempty"`

	// exec is not supported: a function that has it is rejected.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Exec string `json:"exec,omitempty"`

	// configPath is a file of the package that configures the function.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ConfigPath string `json:"configPath,omitempty"`

	// configMap configures the function.
	// +optional
	ConfigMap map[string]string `json:"configMap,omitempty"`

	// name describes the function. In the Kptfile, the function is named PackageVariant.<name of
	// the PackageVariant>.<name>.<index>.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// selectors select the objects that the function receives; without selectors it receives all
	// objects.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Selectors []Selector `json:"selectors,omitempty"`

	// exclude selects objects that the function does not receive.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Exclusions []Selector `json:"exclude,omitempty"`
}

// Selector selects objects in a package. An object must match every field that is set.
type Selector struct {
	// apiVersion of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	APIVersion string `json:"apiVersion,omitempty"`
	// kind of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`
	// name of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// namespace of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Namespace string `json:"namespace,omitempty"`
	// labels that the objects must have.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations that the objects must have.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// InjectionSelector selects an object of this API server, in the namespace of the PackageVariant,
// for injection points of the same group, version and kind.
type InjectionSelector struct {
	// group of the injection point. If not set, any group matches.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group *string `json:"group,omitempty"`
	// version of the injection point. If not set, any version matches.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version *string `json:"version,omitempty"`
	// kind of the injection point. If not set, any kind matches.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind *string `json:"kind,omitempty"`
	// name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// VariantState is the lifecycle of the newest revision of the downstream package.
//
// +kubebuilder:validation:Enum=Draft;Proposed;Published;DeletionProposed
type VariantState string

// States of a PackageVariant.
const (
	VariantDraft            VariantState = "Draft"
	VariantProposed         VariantState = "Proposed"
	VariantPublished        VariantState = "Published"
	VariantDeletionProposed VariantState = "DeletionProposed"
)

// PackageVariantStatus is the observed state of a PackageVariant.
type PackageVariantStatus struct {
	// conditions are Stalled and Ready; and, if the package is delivered to a cluster, Delivered,
	// Applied and Healthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// downstreamTargets are the drafts and proposed revisions of the PackageVariant. If there are
	// none, it is the latest published revision.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	DownstreamTargets []DownstreamTarget `json:"downstreamTargets,omitempty"`

	// observedGeneration is the metadata.generation for which this status was computed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// upstream is the revision that spec.upstream selects.
	// +optional
	Upstream *UpstreamStatus `json:"upstream,omitempty"`

	// state is the lifecycle of the newest revision of the downstream package: Draft, Proposed,
	// Published or DeletionProposed.
	// +optional
	State VariantState `json:"state,omitempty"`

	// waitsFor says what must happen before the PackageVariant can continue.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	WaitsFor string `json:"waitsFor,omitempty"`

	// settled is a hash of all inputs at the time when nothing was left to do. While the hash of
	// the inputs equals it, nothing is left to do.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Settled string `json:"settled,omitempty"`

	// injected are the objects that were looked up for the injection points of the package, whether
	// they exist or not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Injected []InjectedObject `json:"injected,omitempty"`
}

// UpstreamStatus is the upstream of a PackageVariant.
type UpstreamStatus struct {
	// name of the PackageRevision.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// revision is the number of the PackageRevision.
	// +optional
	Revision int `json:"revision,omitempty"`
	// digest identifies the files of the PackageRevision.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
}

// InjectedObject is an object whose content may be copied into an injection point. It may not
// exist.
type InjectedObject struct {
	// group of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
	// version of the object.
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version"`
	// kind of the object.
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind"`
	// name of the object.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DownstreamTarget is a revision of the downstream package.
type DownstreamTarget struct {
	// name of the PackageRevision.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// renderStatus is the result of the last render of the PackageRevision.
	// +optional
	RenderStatus *porchv1alpha1.RenderStatus `json:"renderStatus,omitempty"`
}

// PackageVariantList is a list of PackageVariants.
//
// +kubebuilder:object:root=true
type PackageVariantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PackageVariant `json:"items"`
}
