package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Binding lists every object that is delivered, and every cluster that it is delivered to.
//
// The binding-controller writes Bindings: for a BindingPolicy, which owns its Bindings, and for a
// package in the Repository of a cluster. A user may also write one. The transport-controller
// delivers the objects.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=bdg
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="OBJECTS",type=integer,JSONPath=`.status.rollup.objects`
// +kubebuilder:printcolumn:name="CLUSTERS",type=integer,JSONPath=`.status.rollup.clusters`
// +kubebuilder:printcolumn:name="APPLIED",type=string,JSONPath=`.status.rollup.appliedOf`
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.rollup.healthyOf`
// +kubebuilder:printcolumn:name="DELIVERED",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Delivered")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Binding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the objects and the clusters.
	// +optional
	Spec BindingSpec `json:"spec,omitempty"`

	// status is the state of the delivery, as the transport-controller observed it.
	// +optional
	Status BindingStatus `json:"status,omitempty"`
}

// BindingSpec lists objects and clusters. Every object of the workload, and every object of its
// packages, is delivered to every destination.
type BindingSpec struct {
	// workload lists the objects and the packages that are delivered.
	// +optional
	Workload DownsyncObjectClauses `json:"workload,omitempty"`

	// destinations lists the clusters that the objects are delivered to, sorted by clusterId.
	// +optional
	// +listType=atomic
	Destinations []Destination `json:"destinations,omitempty"`
}

// Destination names a cluster.
type Destination struct {
	// clusterId is the name of the ManagedCluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterID string `json:"clusterId"`
}

// DownsyncObjectClauses lists objects and packages. Both lists of objects are sorted by group,
// version, resource, namespace and name. Of an object that is listed twice, the first entry counts.
//
// The lists are atomic: the managedFields of a list that is merged by its keys are larger than the
// list itself, and each write costs that much more.
type DownsyncObjectClauses struct {
	// clusterScope lists the cluster-scoped objects.
	// +optional
	// +listType=atomic
	ClusterScope []ClusterScopeDownsyncClause `json:"clusterScope,omitempty"`

	// namespaceScope lists the namespaced objects.
	// +optional
	// +listType=atomic
	NamespaceScope []NamespaceScopeDownsyncClause `json:"namespaceScope,omitempty"`

	// packages lists published packages whose objects are delivered, sorted by namespace,
	// repository and package.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=repository
	// +listMapKey=package
	// +kubebuilder:validation:MaxItems=256
	Packages []PackageClause `json:"packages,omitempty"`
}

// PackageClause names one published revision of a package. The objects in its files are delivered,
// except the Kptfile and objects with the annotation config.kubernetes.io/local-config.
type PackageClause struct {
	// namespace is the namespace of the Repository and of the PackageRevision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// repository is the name of the Repository.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Repository string `json:"repository"`
	// package is the path of the package in the Repository.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Package string `json:"package"`
	// revision is the number of the revision, or -1 if it was imported from a tag without a number.
	// +kubebuilder:validation:Minimum=-1
	Revision int `json:"revision"`
	// name is the name of the PackageRevision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// digest identifies the content of the files. A revision with another digest, or one that is
	// not published, is not delivered.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
}

// ClusterScopeDownsyncClause is one cluster-scoped object and the options of its delivery.
type ClusterScopeDownsyncClause struct {
	ClusterScopeDownsyncObject `json:",inline"`
	DownsyncModulation         `json:",inline"`
}

// NamespaceScopeDownsyncClause is one namespaced object and the options of its delivery.
type NamespaceScopeDownsyncClause struct {
	NamespaceScopeDownsyncObject `json:",inline"`
	DownsyncModulation           `json:",inline"`
}

// ClusterScopeDownsyncObject refers to one cluster-scoped object. Group, resource and name identify
// the object; the version does not.
type ClusterScopeDownsyncObject struct {
	// group is the API group; "" is the core group.
	Group string `json:"group"`
	// version is the API version in which the object is read.
	Version string `json:"version"`
	// resource is the lowercase plural.
	Resource string `json:"resource"`
	// name is the object's name.
	Name string `json:"name"`
	// resourceVersion is the resourceVersion of the object that the binding-controller observed
	// last. It is updated at most once a second. The transport-controller delivers newer content
	// without waiting for it.
	ResourceVersion string `json:"resourceVersion"`
}

// NamespaceScopeDownsyncObject refers to one namespaced object. Group, resource, namespace and name
// identify the object; the version does not.
type NamespaceScopeDownsyncObject struct {
	// group is the API group; "" is the core group.
	Group string `json:"group"`
	// version is the API version in which the object is read.
	Version string `json:"version"`
	// resource is the lowercase plural.
	Resource string `json:"resource"`
	// namespace is the object's namespace.
	Namespace string `json:"namespace"`
	// name is the object's name.
	Name string `json:"name"`
	// resourceVersion is the resourceVersion of the object that the binding-controller observed
	// last. It is updated at most once a second. The transport-controller delivers newer content
	// without waiting for it.
	ResourceVersion string `json:"resourceVersion"`
}

// BindingStatus is the state of the delivery, as the transport-controller observed it.
type BindingStatus struct {
	// conditions are Delivered (the mailboxes hold the desired content), Applied (the clusters have
	// applied it), Healthy (the objects work there), and Held (the annotation starling.io/hold
	// keeps objects unchanged; absent without it).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the Binding that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// errors are the reasons why objects have not reached clusters, each with the cluster and the
	// object. The list is sorted; at most 32 errors are listed.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`

	// problems are the first ten objects that are not healthy in a cluster, each with the cluster,
	// the object and the reason. The list is sorted. problemsCount counts all of them.
	// +optional
	// +listType=atomic
	Problems []string `json:"problems,omitempty"`

	// problemsCount is the number of (object, cluster) pairs that have a problem.
	// +optional
	ProblemsCount int64 `json:"problemsCount,omitempty"`

	// rollup counts objects, clusters, and how many copies are applied and healthy.
	// +optional
	Rollup *Rollup `json:"rollup,omitempty"`
}

// Rollup counts copies. A copy is one object in one cluster.
type Rollup struct {
	// objects is the desired number of objects, also of those that cannot be delivered.
	Objects int64 `json:"objects"`
	// clusters is the desired number of clusters.
	Clusters int64 `json:"clusters"`
	// copies is the desired number of (object, cluster) pairs.
	Copies int64 `json:"copies"`
	// incomplete is true if there are more objects, of which nothing is known: a package could not
	// be read.
	// +optional
	Incomplete bool `json:"incomplete,omitempty"`
	// applied is the number of copies that the clusters have applied with their current content.
	Applied int64 `json:"applied"`
	// healthy is the number of applied copies that are healthy.
	Healthy int64 `json:"healthy"`
	// appliedOf shows applied and copies, for a column of kubectl: "98/100"; "98/?" if the copies
	// are incomplete.
	AppliedOf string `json:"appliedOf"`
	// healthyOf shows healthy and copies in the same way.
	HealthyOf string `json:"healthyOf"`
}

// BindingList is a list of Bindings.
//
// +kubebuilder:object:root=true
type BindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Binding `json:"items"`
}
