package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Binding lists the objects that go to clusters, and the clusters, one by one.
//
// It is written by the binding-controller for the BindingPolicy of the same name, which owns it, or for a package in the Repository of a
// cluster; a user may also write one. The transport-controller carries out what it says.
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

	// spec is what goes where.
	// +optional
	Spec BindingSpec `json:"spec,omitempty"`

	// status is what the transport-controller observed.
	// +optional
	Status BindingStatus `json:"status,omitempty"`
}

// BindingSpec is what goes where: every object of the workload, and of the packages in it, goes to every destination.
type BindingSpec struct {
	// workload lists the objects, and the packages that hold objects.
	// +optional
	Workload DownsyncObjectClauses `json:"workload,omitempty"`

	// destinations lists the clusters, sorted by clusterId.
	// +optional
	// +listType=map
	// +listMapKey=clusterId
	Destinations []Destination `json:"destinations,omitempty"`
}

// Destination is a cluster.
type Destination struct {
	// clusterId is the name of the ManagedCluster.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClusterID string `json:"clusterId"`
}

// DownsyncObjectClauses lists objects, each sorted by group, version, resource, namespace and name.
type DownsyncObjectClauses struct {
	// clusterScope lists the cluster-scoped objects.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +listMapKey=name
	ClusterScope []ClusterScopeDownsyncClause `json:"clusterScope,omitempty"`

	// namespaceScope lists the namespaced objects.
	// +optional
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +listMapKey=namespace
	// +listMapKey=name
	NamespaceScope []NamespaceScopeDownsyncClause `json:"namespaceScope,omitempty"`

	// packages lists published packages whose objects go to the destinations, sorted by namespace, repository and package.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +listMapKey=repository
	// +listMapKey=package
	// +kubebuilder:validation:MaxItems=256
	Packages []PackageClause `json:"packages,omitempty"`
}

// PackageClause is one published revision of a package. The objects in its files go to the destinations, but for the Kptfile and
// what is marked as local configuration.
type PackageClause struct {
	// namespace is that of the Repository and the PackageRevision.
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
	// revision is the number of the revision.
	// +kubebuilder:validation:Minimum=1
	Revision int `json:"revision"`
	// name is that of the PackageRevision.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// digest identifies the files. What has another digest, or is not published, is not delivered.
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest"`
}

// ClusterScopeDownsyncClause is one cluster-scoped object and how it is carried.
type ClusterScopeDownsyncClause struct {
	ClusterScopeDownsyncObject `json:",inline"`
	DownsyncModulation         `json:",inline"`
}

// NamespaceScopeDownsyncClause is one namespaced object and how it is carried.
type NamespaceScopeDownsyncClause struct {
	NamespaceScopeDownsyncObject `json:",inline"`
	DownsyncModulation           `json:",inline"`
}

// ClusterScopeDownsyncObject refers to one cluster-scoped object. Group, resource and name identify it; the version is only
// a way to look at it.
type ClusterScopeDownsyncObject struct {
	// group is the API group; "" is the core group.
	Group string `json:"group"`
	// version is the API version through which the object is read.
	Version string `json:"version"`
	// resource is the lowercase plural.
	Resource string `json:"resource"`
	// name is the object's name.
	Name string `json:"name"`
	// resourceVersion is a version of the object that the binding-controller saw. It follows edits at most once a second;
	// the transport does not wait for it.
	ResourceVersion string `json:"resourceVersion"`
}

// NamespaceScopeDownsyncObject refers to one namespaced object. Group, resource, namespace and name identify it; the version
// is only a way to look at it.
type NamespaceScopeDownsyncObject struct {
	// group is the API group; "" is the core group.
	Group string `json:"group"`
	// version is the API version through which the object is read.
	Version string `json:"version"`
	// resource is the lowercase plural.
	Resource string `json:"resource"`
	// namespace is the object's namespace.
	Namespace string `json:"namespace"`
	// name is the object's name.
	Name string `json:"name"`
	// resourceVersion is a version of the object that the binding-controller saw. It follows edits at most once a second;
	// the transport does not wait for it.
	ResourceVersion string `json:"resourceVersion"`
}

// BindingStatus is what the transport-controller observed.
type BindingStatus struct {
	// conditions are Delivered, Applied, Healthy and Held; see the constants BindingCondition….
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the Binding that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// errors are what kept objects from reaching clusters, each with the cluster and the object. Sorted; bounded.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`

	// problems are the first of the objects that are not well in a cluster, each with the cluster, the object and what it says
	// of itself. Sorted; at most ten, and one entry that counts the rest.
	// +optional
	// +listType=atomic
	Problems []string `json:"problems,omitempty"`

	// rollup counts what is where.
	// +optional
	Rollup *Rollup `json:"rollup,omitempty"`
}

// Rollup counts copies: a copy is one object in one cluster.
type Rollup struct {
	// objects and clusters are how many there are to be.
	Objects  int64 `json:"objects"`
	Clusters int64 `json:"clusters"`
	// copies is how many there are to be.
	Copies int64 `json:"copies"`
	// applied is how many are in their clusters at their current content, healthy how many of these are well.
	Applied int64 `json:"applied"`
	Healthy int64 `json:"healthy"`
	// appliedOf and healthyOf say the same beside copies, for people: "98/100".
	AppliedOf string `json:"appliedOf"`
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
