package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BindingPolicy says which objects of its workload definition space (WDS) go to which clusters, and in which way.
//
// What it asks for becomes a Binding of the same name, which lists the objects and the clusters one by one.
//
// Example: all objects labelled app=nginx go to all clusters labelled site=edge.
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

	// spec is what the user asks for.
	// +optional
	Spec BindingPolicySpec `json:"spec,omitempty"`

	// status is what the binding-controller observed.
	// +optional
	Status BindingPolicyStatus `json:"status,omitempty"`
}

// BindingPolicySpec is the "where" and the "what" of a BindingPolicy.
type BindingPolicySpec struct {
	// clusterSelectors says where: a ManagedCluster is a destination if its labels match any of these selectors. No selector
	// means no cluster; one empty selector means all clusters. A cluster that the hub has not accepted is no destination.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ClusterSelectors []metav1.LabelSelector `json:"clusterSelectors,omitempty"`

	// downsync says what: an object goes to the destinations if it matches any of these clauses. Where several clauses match
	// one object, their booleans are ORed and their lists are united.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Downsync []DownsyncPolicyClause `json:"downsync,omitempty"`
}

// DownsyncPolicyClause selects objects and says how they are carried. An object matches if it passes every test that is
// present; the entries of one test are alternatives.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiGroup) || (has(self.resources) && size(self.resources) > 0) || (has(self.namespaces) && size(self.namespaces) > 0) || (has(self.namespaceSelectors) && size(self.namespaceSelectors) > 0) || (has(self.objectSelectors) && size(self.objectSelectors) > 0) || (has(self.objectNames) && size(self.objectNames) > 0)",message="a clause must have at least one of apiGroup, resources, namespaces, namespaceSelectors, objectSelectors, objectNames; to select every object say objectNames: [\"*\"]"
type DownsyncPolicyClause struct {
	DownsyncObjectTest `json:",inline"`
	DownsyncModulation `json:",inline"`
}

// DownsyncObjectTest is a test of one object.
type DownsyncObjectTest struct {
	// apiGroup is the API group of the object; "" is the core group, absent is any group.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	APIGroup *string `json:"apiGroup,omitempty"`

	// resources are the object's possible resources: lowercase plurals such as "deployments", or "*". Empty means any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=253
	Resources []string `json:"resources,omitempty"`

	// namespaces are names of namespaces, or "*". Empty means any. A cluster-scoped object is in no namespace: it passes only
	// if this list is empty or holds "*".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelectors test the labels of the object's Namespace. Empty means any. A cluster-scoped object passes only if
	// this list is empty or holds an empty selector.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	NamespaceSelectors []metav1.LabelSelector `json:"namespaceSelectors,omitempty"`

	// objectSelectors test the labels of the object. Empty means any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ObjectSelectors []metav1.LabelSelector `json:"objectSelectors,omitempty"`

	// objectNames are names of objects, or "*". Empty means any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MaxLength=253
	ObjectNames []string `json:"objectNames,omitempty"`
}

// DownsyncModulation says how an object is carried.
type DownsyncModulation struct {
	// createOnly: the clusters create the object when it is not there and never update it.
	// +optional
	CreateOnly bool `json:"createOnly,omitempty"`

	// statusCollectors are names of StatusCollectors to be applied to the object.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	StatusCollectors []string `json:"statusCollectors,omitempty"`

	// wantSingletonReportedState asks that the object's status be copied back from the one cluster that it goes to.
	//
	// The clusters that count are the destinations of all policies that select the object with this field set. If their
	// number is not one, the status is left empty and status.errors says so.
	// +optional
	WantSingletonReportedState bool `json:"wantSingletonReportedState,omitempty"`

	// wantMultiWECReportedState asks that the statuses of all clusters be aggregated into the object's status.
	// +optional
	WantMultiWECReportedState bool `json:"wantMultiWECReportedState,omitempty"`
}

// BindingPolicyStatus is what the binding-controller observed.
type BindingPolicyStatus struct {
	// conditions are Synced, Ready, Held, Delivered, Applied and Healthy; see the constants BindingPolicyCondition….
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the policy that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// errors are the user's mistakes, and what the transport and the clusters said, each with the field or cluster that it
	// is about. Sorted; bounded.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`

	// problems are the first of the objects that are not well in a cluster, each with the cluster, the object and what it says
	// of itself. At most ten, and one entry that counts the rest.
	// +optional
	// +listType=atomic
	Problems []string `json:"problems,omitempty"`

	// rollup counts what is where, over all Bindings of the policy.
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
