package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
)

// PackageVariantSet keeps one PackageVariant for each of its targets: repositories that it lists or selects, or objects of any kind that
// it selects, clusters for instance.
//
// What is wrong with a PackageVariantSet stands in its condition Stalled, all of it at once; so the schema says little.
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

	// spec is what the user asks for.
	// +optional
	Spec PackageVariantSetSpec `json:"spec,omitempty"`

	// status is what was observed.
	// +optional
	Status PackageVariantSetStatus `json:"status,omitempty"`
}

// PackageVariantSetSpec says of what, for whom and how PackageVariants are made.
type PackageVariantSetSpec struct {
	// upstream is that of all PackageVariants.
	// +optional
	Upstream *configv1alpha1.Upstream `json:"upstream,omitempty"`

	// targets say for whom PackageVariants are made.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Targets []Target `json:"targets,omitempty"`
}

// Target selects by exactly one of repositories, repositorySelector and objectSelector.
type Target struct {
	// repositories lists repositories.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	Repositories []RepositoryTarget `json:"repositories,omitempty"`

	// repositorySelector selects Repositories in the namespace of the set by their labels.
	// +optional
	RepositorySelector *RepositorySelector `json:"repositorySelector,omitempty"`

	// objectSelector selects objects of one kind, in the namespace of the set or in none, by their labels. Their names are those of the
	// repositories, unless the template says otherwise.
	// +optional
	ObjectSelector *ObjectSelector `json:"objectSelector,omitempty"`

	// packageNames are the packages that are made for each repository or object which does not come with its own; without any, it is one
	// with the name of the upstream package.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`

	// template says what the PackageVariants are like.
	// +optional
	Template *PackageVariantTemplate `json:"template,omitempty"`
}

// RepositoryTarget is a repository.
type RepositoryTarget struct {
	// name of the Repository.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// packageNames are the packages that are made in it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`
}

// RepositorySelector selects Repositories. An empty one selects all.
type RepositorySelector struct {
	metav1.LabelSelector `json:",inline"`

	// packageNames are the packages that are made in each.
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

	// name, if given, is that of the only object selected.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// packageNames are the packages that are made for each.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=512
	PackageNames []string `json:"packageNames,omitempty"`
}

// PackageVariantTemplate says what the PackageVariants of a target are like. Fields whose names end in Expr or Exprs are CEL expressions that
// yield strings. They know the variables repoDefault and packageDefault, and upstream, repository (but for repoExpr) and target, of which
// they see name, namespace, labels and annotations.
type PackageVariantTemplate struct {
	// downstream says which package is kept in which repository.
	// +optional
	Downstream *DownstreamTemplate `json:"downstream,omitempty"`

	// adoptionPolicy is that of the PackageVariants.
	// +optional
	AdoptionPolicy *configv1alpha1.AdoptionPolicy `json:"adoptionPolicy,omitempty"`

	// deletionPolicy is that of the PackageVariants.
	// +optional
	DeletionPolicy *configv1alpha1.DeletionPolicy `json:"deletionPolicy,omitempty"`

	// labels are spec.labels of the PackageVariants.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// labelExprs add to labels; of equal keys, these count.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	LabelExprs []MapExpr `json:"labelExprs,omitempty"`

	// annotations are spec.annotations of the PackageVariants.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// annotationExprs add to annotations; of equal keys, these count.
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

	// injectors are spec.injectors of the PackageVariants.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Injectors []InjectionSelectorTemplate `json:"injectors,omitempty"`
}

// DownstreamTemplate says which package is kept in which repository. A field and its expression exclude each other.
type DownstreamTemplate struct {
	// repo is the name of the Repository.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Repo *string `json:"repo,omitempty"`

	// package is the package.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Package *string `json:"package,omitempty"`

	// repoExpr yields the name of the Repository. It does not know the variable repository.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	RepoExpr *string `json:"repoExpr,omitempty"`

	// packageExpr yields the package.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	PackageExpr *string `json:"packageExpr,omitempty"`
}

// PackageContextTemplate says what packageContext is.
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

	// dataExprs add to data; of equal keys, these count.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DataExprs []MapExpr `json:"dataExprs,omitempty"`

	// removeKeyExprs add to removeKeys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=8192
	RemoveKeyExprs []string `json:"removeKeyExprs,omitempty"`
}

// InjectionSelectorTemplate says what an injector is. It has a name or a nameExpr.
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
	// nameExpr yields the name of the injector.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	NameExpr *string `json:"nameExpr,omitempty"`
}

// MapExpr is an entry of a map. A field and its expression exclude each other.
type MapExpr struct {
	// key of the entry.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Key *string `json:"key,omitempty"`
	// value of the entry.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Value *string `json:"value,omitempty"`
	// keyExpr yields the key.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	KeyExpr *string `json:"keyExpr,omitempty"`
	// valueExpr yields the value.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	ValueExpr *string `json:"valueExpr,omitempty"`
}

// PipelineTemplate says what pipeline is.
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

// FunctionTemplate says what a function is.
type FunctionTemplate struct {
	configv1alpha1.Function `json:",inline"`

	// configMapExprs add to configMap; of equal keys, these count.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	ConfigMapExprs []MapExpr `json:"configMapExprs,omitempty"`
}

// PackageVariantSetStatus is what was observed of a set.
type PackageVariantSetStatus struct {
	// conditions say how the set does: Stalled, Ready and Held.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchMergeKey=type
	// +patchStrategy=merge
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`

	// observedGeneration is the generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// targets is how many packages the set asks for, those with problems among them.
	// +optional
	Targets int32 `json:"targets"`
	// draft is how many of them have a draft that is not proposed.
	// +optional
	Draft int32 `json:"draft"`
	// proposed is how many wait for approval.
	// +optional
	Proposed int32 `json:"proposed"`
	// published is how many are published as they should be, with no draft open.
	// +optional
	Published int32 `json:"published"`
	// applied is how many have their latest published revision applied by their cluster.
	// +optional
	Applied int32 `json:"applied"`
	// healthy is how many of those are healthy there.
	// +optional
	Healthy int32 `json:"healthy"`

	// problems are those of single targets; the others are not affected. The first ten are listed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Problems []Problem `json:"problems,omitempty"`
	// moreProblems is how many there are beside those listed.
	// +optional
	MoreProblems int32 `json:"moreProblems,omitempty"`
}

// Problem is what is wrong with one target.
type Problem struct {
	// target says which: the field of spec, and the repository or object.
	// +kubebuilder:validation:MaxLength=1024
	Target string `json:"target"`
	// message says what is wrong, naming the field.
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
