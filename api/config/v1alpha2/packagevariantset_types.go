package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

// PackageVariantSet creates and updates one PackageVariant for each of its targets. Targets are
// repositories that it lists or selects, or objects of any kind that it selects, such as clusters.
//
// The condition Stalled lists every error in spec at once. Therefore the schema validates little.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TARGETS",type=integer,JSONPath=`.status.targets`
// +kubebuilder:printcolumn:name="DRAFT",type=integer,JSONPath=`.status.draft`
// +kubebuilder:printcolumn:name="PROPOSED",type=integer,JSONPath=`.status.proposed`
// +kubebuilder:printcolumn:name="PUBLISHED",type=integer,JSONPath=`.status.published`
// +kubebuilder:printcolumn:name="APPLIED",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="HEALTHY",type=integer,JSONPath=`.status.healthy`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="STALLED",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=='Stalled')].status`
// +kubebuilder:printcolumn:name="PROBLEM",type=string,priority=1,JSONPath=`.status.problems[0].message`
type PackageVariantSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec PackageVariantSetSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status PackageVariantSetStatus `json:"status,omitempty"`
}

// PackageVariantSetSpec is the desired state of a PackageVariantSet.
type PackageVariantSetSpec struct {
	// upstream of all PackageVariants.
	// +optional
	Upstream *configv1alpha1.Upstream `json:"upstream,omitempty"`

	// targets select the repositories or objects for which PackageVariants are created.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Targets []Target `json:"targets,omitempty"`
}

// Target selects repositories or objects. It has exactly one of repositories, repositorySelector
// and objectSelector.
type Target struct {
	// repositories lists repositories.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	Repositories []RepositoryTarget `json:"repositories,omitempty"`

	// repositorySelector selects Repositories in the namespace of the set by their labels.
	// +optional
	RepositorySelector *RepositorySelector `json:"repositorySelector,omitempty"`

	// objectSelector selects objects of one kind by their labels, in the namespace of the set, or
	// of a cluster-scoped kind. The name of an object is the name of the repository, unless the
	// template says otherwise.
	// +optional
	ObjectSelector *ObjectSelector `json:"objectSelector,omitempty"`

	// packageNames are the packages that are created for each repository or object that has no
	// packageNames of its own. The default is one package with the name of the upstream package.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`

	// template for the PackageVariants.
	// +optional
	Template *PackageVariantTemplate `json:"template,omitempty"`
}

// RepositoryTarget is a repository for which PackageVariants are created.
type RepositoryTarget struct {
	// name of the Repository.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// packageNames are the packages that are created in the repository.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`
}

// RepositorySelector selects Repositories. An empty one selects all.
type RepositorySelector struct {
	metav1.LabelSelector `json:",inline"`

	// packageNames are the packages that are created in each repository.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`
}

// ObjectSelector selects objects of one kind.
type ObjectSelector struct {
	metav1.LabelSelector `json:",inline"`

	// apiVersion of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the objects.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind string `json:"kind,omitempty"`

	// name of the object. If set, only the object of this name is selected.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// packageNames are the packages that are created for each object.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`
}

// PackageVariantTemplate is the template for the PackageVariants of a target. Fields whose names
// end in Expr or Exprs are CEL expressions that evaluate to strings. Their variables are
// repoDefault, packageDefault, upstream, repository (except in repoExpr) and target. The variables
// upstream, repository and target have the fields name, namespace, labels and annotations.
type PackageVariantTemplate struct {
	// downstream is the repository and the package of the PackageVariants.
	// +optional
	Downstream *DownstreamTemplate `json:"downstream,omitempty"`

	// adoptionPolicy of the PackageVariants.
	// +optional
	AdoptionPolicy *configv1alpha1.AdoptionPolicy `json:"adoptionPolicy,omitempty"`

	// deletionPolicy of the PackageVariants.
	// +optional
	DeletionPolicy *configv1alpha1.DeletionPolicy `json:"deletionPolicy,omitempty"`

	// labels is spec.labels of the PackageVariants.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// labelExprs add entries to labels. They override entries with the same key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	LabelExprs []MapExpr `json:"labelExprs,omitempty"`

	// annotations is spec.annotations of the PackageVariants.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// annotationExprs add entries to annotations. They override entries with the same key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	AnnotationExprs []MapExpr `json:"annotationExprs,omitempty"`

	// packageContext is spec.packageContext of the PackageVariants.
	// +optional
	PackageContext *PackageContextTemplate `json:"packageContext,omitempty"`

	// pipeline is spec.pipeline of the PackageVariants.
	// +optional
	Pipeline *PipelineTemplate `json:"pipeline,omitempty"`

	// injectors is spec.injectors of the PackageVariants.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Injectors []InjectionSelectorTemplate `json:"injectors,omitempty"`
}

// DownstreamTemplate is the template for spec.downstream. A field and its expression are mutually
// exclusive.
type DownstreamTemplate struct {
	// repo is the name of the Repository.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repo *string `json:"repo,omitempty"`

	// package is the path of the package in the repository.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package *string `json:"package,omitempty"`

	// repoExpr evaluates to the name of the Repository. The variable repository is not defined in
	// it.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	RepoExpr *string `json:"repoExpr,omitempty"`

	// packageExpr evaluates to the path of the package.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	PackageExpr *string `json:"packageExpr,omitempty"`
}

// PackageContextTemplate is the template for spec.packageContext.
type PackageContextTemplate struct {
	// data is packageContext.data.
	// +optional
	Data map[string]string `json:"data,omitempty"`

	// removeKeys is packageContext.removeKeys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	RemoveKeys []string `json:"removeKeys,omitempty"`

	// dataExprs add entries to data. They override entries with the same key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DataExprs []MapExpr `json:"dataExprs,omitempty"`

	// removeKeyExprs evaluate to keys that are added to removeKeys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=8192
	RemoveKeyExprs []string `json:"removeKeyExprs,omitempty"`
}

// InjectionSelectorTemplate is the template for an injector. It has either a name or a nameExpr.
type InjectionSelectorTemplate struct {
	// group of the injector.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group *string `json:"group,omitempty"`
	// version of the injector.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version *string `json:"version,omitempty"`
	// kind of the injector.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Kind *string `json:"kind,omitempty"`
	// name of the injector.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name *string `json:"name,omitempty"`
	// nameExpr evaluates to the name of the injector.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	NameExpr *string `json:"nameExpr,omitempty"`
}

// MapExpr is an entry of a map. A field and its expression are mutually exclusive.
type MapExpr struct {
	// key of the entry.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Key *string `json:"key,omitempty"`
	// value of the entry.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Value *string `json:"value,omitempty"`
	// keyExpr evaluates to the key.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	KeyExpr *string `json:"keyExpr,omitempty"`
	// valueExpr evaluates to the value.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	ValueExpr *string `json:"valueExpr,omitempty"`
}

// PipelineTemplate is the template for spec.pipeline.
type PipelineTemplate struct {
	// validators is pipeline.validators.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Validators []FunctionTemplate `json:"validators,omitempty"`

	// mutators is pipeline.mutators.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Mutators []FunctionTemplate `json:"mutators,omitempty"`
}

// FunctionTemplate is the template for a function.
type FunctionTemplate struct {
	configv1alpha1.Function `json:",inline"`

	// configMapExprs add entries to configMap. They override entries with the same key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ConfigMapExprs []MapExpr `json:"configMapExprs,omitempty"`
}

// PackageVariantSetStatus is the observed state of a PackageVariantSet.
type PackageVariantSetStatus struct {
	// conditions are Stalled, Ready and RemovalBlocked.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// observedGeneration is the metadata.generation for which this status was computed.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// targets is the desired number of packages, including those that have problems.
	// +optional
	Targets int32 `json:"targets"`
	// draft is the number of packages that have a draft that is not proposed.
	// +optional
	Draft int32 `json:"draft"`
	// proposed is the number of packages that have a proposed revision.
	// +optional
	Proposed int32 `json:"proposed"`
	// published is the number of packages whose published revision is up to date, and that have no
	// draft.
	// +optional
	Published int32 `json:"published"`
	// applied is the number of packages whose latest published revision is applied in its cluster.
	// +optional
	Applied int32 `json:"applied"`
	// healthy is the number of applied packages that are healthy in their cluster.
	// +optional
	Healthy int32 `json:"healthy"`

	// problems of single targets; other targets are not affected. The first ten are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Problems []Problem `json:"problems,omitempty"`
	// moreProblems is the number of problems that are not listed.
	// +optional
	MoreProblems int32 `json:"moreProblems,omitempty"`
}

// Problem is a problem of one target.
type Problem struct {
	// target is the field of spec, and the repository or object.
	// +kubebuilder:validation:MaxLength=1024
	Target string `json:"target"`
	// message describes the problem and names the field.
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message"`
}

// PackageVariantSetList is a list of PackageVariantSets.
//
// +kubebuilder:object:root=true
type PackageVariantSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PackageVariantSet `json:"items"`
}
