package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BindingPolicy selects objects of a workload definition space (WDS), the clusters that they are
// delivered to, and the options of their delivery.
//
// The binding-controller writes the result into a Binding of the same name, which lists every
// selected object and every selected cluster.
//
// Example: deliver all objects labelled app=nginx to all clusters labelled site=edge.
//
//	apiVersion: control.kubestellar.io/v1alpha1
//	kind: BindingPolicy
//	metadata:
//	  name: nginx
//	spec:
//	  clusterSelectors:
//	  - matchLabels: {site: edge}
//	  downsync:
//	  - objectSelectors:
//	    - matchLabels: {app: nginx}
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=bp
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="OBJECTS",type=integer,JSONPath=`.status.rollup.objects`
// +kubebuilder:printcolumn:name="CLUSTERS",type=integer,JSONPath=`.status.rollup.clusters`
// +kubebuilder:printcolumn:name="APPLIED",type=string,JSONPath=`.status.rollup.appliedOf`
// +kubebuilder:printcolumn:name="HEALTHY",type=string,JSONPath=`.status.rollup.healthyOf`
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="REASON",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type BindingPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects objects and clusters.
	// +optional
	Spec BindingPolicySpec `json:"spec,omitempty"`

	// status is the state of the policy, as the binding-controller observed it.
	// +optional
	Status BindingPolicyStatus `json:"status,omitempty"`
}

// BindingPolicySpec selects objects and clusters.
type BindingPolicySpec struct {
	// clusterSelectors select the destinations: a ManagedCluster is a destination if its labels
	// match any of these selectors. An empty list selects no cluster; one empty selector selects
	// all clusters. A cluster that the hub has not accepted is no destination.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ClusterSelectors []metav1.LabelSelector `json:"clusterSelectors,omitempty"`

	// downsync selects the objects: an object is delivered to the destinations if it matches any of
	// these clauses. If several clauses match an object, a boolean option is true if any of them
	// sets it, and a list option is the union of their lists.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Downsync []DownsyncPolicyClause `json:"downsync,omitempty"`
}

// DownsyncPolicyClause selects objects and sets the options of their delivery. An object matches if
// it passes every test that is present. It passes a test if any entry of the test matches.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || (has(self.resources) && size(self.resources) > 0) || (has(self.namespaces) && size(self.namespaces) > 0) || (has(self.namespaceSelectors) && size(self.namespaceSelectors) > 0) || (has(self.objectSelectors) && size(self.objectSelectors) > 0) || (has(self.objectNames) && size(self.objectNames) > 0)",message="a clause must have at least one of apiGroup, resources, namespaces, namespaceSelectors, objectSelectors, objectNames; to select every object say objectNames: [\"*\"]"
type DownsyncPolicyClause struct {
	DownsyncObjectTest `json:",inline"`
	DownsyncModulation `json:",inline"`
}

// DownsyncObjectTest is a test of one object.
type DownsyncObjectTest struct {
	// apiGroup is the API group of the object. "" is the core group. If the field is absent, any
	// group matches.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup *string `json:"apiGroup,omitempty"`

	// resources are lowercase plurals such as "deployments", or "*". If the list is empty, any
	// resource matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Resources []string `json:"resources,omitempty"`

	// namespaces are names of namespaces, or "*". If the list is empty, any namespace matches. A
	// cluster-scoped object passes only if the list is empty or contains "*".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelectors match the labels of the object's Namespace. If the list is empty, any
	// namespace matches. A cluster-scoped object passes only if the list is empty or contains an
	// empty selector.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// objectSelectors match the labels of the object. If the list is empty, any object matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ObjectSelectors []metav1.LabelSelector `json:"objectSelectors,omitempty"`

	// objectNames are names of objects, or "*". If the list is empty, any name matches.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	ObjectNames []string `json:"objectNames,omitempty"`
}

// DownsyncModulation holds the options of the delivery of an object.
type DownsyncModulation struct {
	// createOnly makes the clusters create the object if it does not exist, and never update it.
	// +optional
	CreateOnly bool `json:"createOnly,omitempty"`

	// statusCollectors are names of StatusCollectors that are evaluated for the object. The results
	// are in a CombinedStatus.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	StatusCollectors []string `json:"statusCollectors,omitempty"`

	// wantSingletonReportedState requests that the status of the object is copied from the one
	// cluster that it is delivered to into the object in the WDS.
	//
	// The clusters are the destinations of all policies that select the object with this field set.
	// If their number is not one, the status stays empty and status.errors says so.
	// +optional
	WantSingletonReportedState bool `json:"wantSingletonReportedState,omitempty"`

	// wantMultiWECReportedState requests that the statuses of the object in all clusters are
	// aggregated into the status of the object in the WDS.
	// +optional
	WantMultiWECReportedState bool `json:"wantMultiWECReportedState,omitempty"`
}

// BindingPolicyStatus is the state of a policy, as the binding-controller observed it.
type BindingPolicyStatus struct {
	// conditions are Synced (the Bindings list what the policy selects), Ready (the clusters have
	// applied it), Delivered, Applied and Healthy (as in the Binding), RemovalBlocked (a change
	// that would remove too much is blocked; absent otherwise), and StatusCollectorsAvailable
	// (absent if the policy names no StatusCollectors).
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the policy that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// errors are mistakes in the policy, and errors of the delivery and of the clusters, each with
	// the field or the cluster that it is about. The list is sorted; at most 32 errors are listed.
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

	// rollup counts objects, clusters, and how many copies are applied and healthy, over all
	// Bindings of the policy.
	// +optional
	Rollup *Rollup `json:"rollup,omitempty"`
}

// BindingPolicyList is a list of BindingPolicies.
//
// +kubebuilder:object:root=true
type BindingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BindingPolicy `json:"items"`
}
