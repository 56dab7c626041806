package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// PackageVariant keeps a variant of a package: it clones an upstream package, changes the copy as spec says, and brings drafts when the
// upstream, what is injected, or the PackageVariant changes. Proposing and approving drafts is left to others, unless an annotation
// says otherwise; see AnnotationApprovalPolicy.
//
// What is wrong with a PackageVariant stands in its condition Stalled, all of it at once; so the schema says little.
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

	// spec is what the user asks for.
	// +optional
	Spec PackageVariantSpec `json:"spec,omitempty"`

	// status is what was observed.
	// +optional
	Status PackageVariantStatus `json:"status,omitempty"`
}

// AdoptionPolicy says what becomes of revisions of the downstream package that are there already.
//
// +kubebuilder:validation:MaxLength=64
type AdoptionPolicy string

// Policies of adoption.
const (
	// AdoptionPolicyAdoptNone leaves them alone. It is the default.
	AdoptionPolicyAdoptNone AdoptionPolicy = "adoptNone"
	// AdoptionPolicyAdoptExisting makes them those of the PackageVariant.
	AdoptionPolicyAdoptExisting AdoptionPolicy = "adoptExisting"
)

// DeletionPolicy says what becomes of the downstream package when the PackageVariant is deleted, or is given another downstream.
//
// +kubebuilder:validation:MaxLength=64
type DeletionPolicy string

// Policies of deletion.
const (
	// DeletionPolicyDelete deletes drafts, and proposes the deletion of what is published. It is the default.
	DeletionPolicyDelete DeletionPolicy = "delete"
	// DeletionPolicyOrphan leaves everything, and owns it no more.
	DeletionPolicyOrphan DeletionPolicy = "orphan"
)

// PackageVariantSpec says what the variant is made of.
type PackageVariantSpec struct {
	// upstream is the package that is cloned.
	// +optional
	Upstream *Upstream `json:"upstream,omitempty"`

	// downstream is the package that is kept.
	// +optional
	Downstream *Downstream `json:"downstream,omitempty"`

	// adoptionPolicy is adoptNone (the default) or adoptExisting.
	// +optional
	AdoptionPolicy AdoptionPolicy `json:"adoptionPolicy,omitempty"`

	// deletionPolicy is delete (the default) or orphan.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// labels are put on revisions when they are created or adopted.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations are put on revisions when they are created or adopted.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// packageContext changes the ConfigMap kptfile.kpt.dev of the package.
	// +optional
	PackageContext *PackageContext `json:"packageContext,omitempty"`

	// pipeline holds functions that run before those of the package.
	// +optional
	Pipeline *Pipeline `json:"pipeline,omitempty"`

	// injectors say which objects of this API server are copied to the injection points of the package; for each point, the first that
	// matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Injectors []InjectionSelector `json:"injectors,omitempty"`
}

// Upstream says which revision of which package is cloned: by its revision, its workspace, both, or a tag. It must be published.
type Upstream struct {
	// repo is the name of a Repository in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repo string `json:"repo,omitempty"`

	// package is the package, a path in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package,omitempty"`

	// revision is the number of a published revision, with or without a v (3, "v3"), or latest, which is always the highest.
	// +optional
	// +kubebuilder:validation:XIntOrString
	Revision *intstr.IntOrString `json:"revision,omitempty"`

	// workspaceName is the workspace of a published revision.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WorkspaceName string `json:"workspaceName,omitempty"`

	// tag follows a tag that moves: the published revision that has the label tag.starling.io/<tag>. While two have it, as when it is
	// moved, it is the higher one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Tag string `json:"tag,omitempty"`
}

// Downstream is the package that is kept.
type Downstream struct {
	// repo is the name of a Repository in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repo string `json:"repo,omitempty"`

	// package is the package, a path in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package,omitempty"`
}

// PackageContext changes the data of the ConfigMap kptfile.kpt.dev. The keys name and package-path are not to be changed.
type PackageContext struct {
	// data is set.
	// +optional
	Data map[string]string `json:"data,omitempty"`

	// removeKeys are removed, also if they stand in data.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	RemoveKeys []string `json:"removeKeys,omitempty"`
}

// Pipeline holds functions, as a Kptfile does.
type Pipeline struct {
	// validators look at the objects.
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
	// image is the function.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// tag is the tag of the image, which may be a range of versions.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Tag string `json:"tag,omitempty"`

	// exec is a program. Programs are not run: a function that has one is refused.
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

	// name is for people. In the Kptfile, the function is named PackageVariant.<name of the PackageVariant>.<name>.<index>.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// selectors select the objects that the function is given; without one it is given all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Selectors []Selector `json:"selectors,omitempty"`

	// exclude takes objects away from what the function is given.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Exclusions []Selector `json:"exclude,omitempty"`
}

// Selector selects objects in a package. All that it says must hold.
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
	// labels that the objects have.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// annotations that the objects have.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// InjectionSelector selects an object of this API server, in the namespace of the PackageVariant, for the injection points of its group,
// version and kind.
type InjectionSelector struct {
	// group, if given, is that of the injection point.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group *string `json:"group,omitempty"`
	// version, if given, is that of the injection point.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version *string `json:"version,omitempty"`
	// kind, if given, is that of the injection point.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind *string `json:"kind,omitempty"`
	// name of the object.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// VariantState is where the newest revision of the downstream package is.
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

// PackageVariantStatus is what was observed of a PackageVariant.
type PackageVariantStatus struct {
	// conditions say how the PackageVariant does: Stalled and Ready, and of what is delivered Delivered, Applied and Healthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// downstreamTargets are the drafts and proposed revisions of the PackageVariant; if there are none, the latest published one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	DownstreamTargets []DownstreamTarget `json:"downstreamTargets,omitempty"`

	// observedGeneration is the generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// upstream is the revision that spec.upstream denotes.
	// +optional
	Upstream *UpstreamStatus `json:"upstream,omitempty"`

	// state is where the newest revision of the downstream package is: Draft, Proposed, Published or DeletionProposed.
	// +optional
	State VariantState `json:"state,omitempty"`

	// waitsFor says what has to happen for the work to go on, and who does it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	WaitsFor string `json:"waitsFor,omitempty"`

	// settled is a hash of all that was looked at when nothing was left to do; as long as it is the same, nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Settled string `json:"settled,omitempty"`

	// injected are the objects that were looked for at the injection points of the package.
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
	// revision is its number.
	// +optional
	Revision int `json:"revision,omitempty"`
	// digest identifies its files.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
}

// InjectedObject is an object that an injection point may take its content from, whether it is there or not.
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
	// renderStatus is what rendering it came to when its files were written last.
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
