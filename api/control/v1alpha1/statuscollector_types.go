package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusCollector says how the states of one object in several clusters become one table. It is like an SQL SELECT over a
// table with one row for each cluster that the object goes to. BindingPolicies name StatusCollectors in
// spec.downsync[].statusCollectors; the tables are in CombinedStatuses.
//
// Example: where a Deployment has fewer replicas than it should.
//
//	apiVersion: control.kubestellar.io/v1alpha1
//	kind: StatusCollector
//	metadata:
//	  name: not-available
//	spec:
//	  filter: obj.spec.replicas != returned.status.?availableReplicas.orValue(0)
//	  select:
//	  - name: cluster
//	    def: inventory.name
//	  - name: available
//	    def: returned.status.?availableReplicas
//	  limit: 20
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=sc
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="ERROR",type=string,JSONPath=`.status.errors[0]`
type StatusCollector struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the user asks for.
	// +optional
	Spec StatusCollectorSpec `json:"spec,omitempty"`

	// status is what the binding-controller observed.
	// +optional
	Status StatusCollectorStatus `json:"status,omitempty"`
}

// StatusCollectorSpec is a query. It either selects, by select, or aggregates, by combinedFields with or without groupBy.
type StatusCollectorSpec struct {
	// filter leaves out the clusters for which it is false or null.
	// +optional
	Filter *Expression `json:"filter,omitempty"`

	// groupBy says which clusters are aggregated into one row: those for which all these expressions have the same values.
	// They are the first columns of the row. It must be empty if combinedFields is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	GroupBy []NamedExpression `json:"groupBy,omitempty"`

	// combinedFields are the columns that aggregate over clusters. Without groupBy there is one row, over all clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	CombinedFields []NamedAggregator `json:"combinedFields,omitempty"`

	// select makes a row of each cluster, with these columns. It excludes groupBy and combinedFields.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Select []NamedExpression `json:"select,omitempty"`

	// limit is how many rows there are at most: the first in order, by name of the cluster or by the values of groupBy. 0 stands for
	// the default.
	// +required
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	Limit int64 `json:"limit"`
}

// Expression is written in the Common Expression Language as Kubernetes knows it (https://kubernetes.io/docs/reference/using-api/cel/).
// It is about one object in one cluster, and may use
//   - obj, the object in the workload definition space, without its status;
//   - returned.status, the status that the cluster returned, null if none;
//   - inventory.name and inventory.labels, those of the cluster;
//   - propagation.lastReturnedUpdateTimestamp, when the status last changed, null if the cluster has not reported the object.
//
// +kubebuilder:validation:MaxLength=16384
type Expression string

// NamedExpression is a column and how its values come about.
type NamedExpression struct {
	// name of the column.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// def yields the value.
	// +required
	Def Expression `json:"def"`
}

// NamedAggregator is a column that aggregates over clusters.
type NamedAggregator struct {
	// name of the column.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// type is one of COUNT, SUM, AVG, MIN, MAX.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Type AggregatorType `json:"type"`

	// subject is what is aggregated: an expression that yields a number, or a string that holds one. null is skipped. It must not
	// be there with COUNT, and must be with the others.
	// +optional
	Subject *Expression `json:"subject,omitempty"`
}

// AggregatorType is a way to aggregate.
type AggregatorType string

// Ways to aggregate.
const (
	// AggregatorCount is the number of clusters.
	AggregatorCount AggregatorType = "COUNT"
	AggregatorSum   AggregatorType = "SUM"
	// AggregatorAvg is the sum by the number of clusters, those with null among them.
	AggregatorAvg AggregatorType = "AVG"
	AggregatorMin AggregatorType = "MIN"
	AggregatorMax AggregatorType = "MAX"
)

// StatusCollectorStatus is what the binding-controller observed.
type StatusCollectorStatus struct {
	// observedGeneration is the generation of the StatusCollector that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// errors are the mistakes in spec. While there are any, the StatusCollector counts as missing.
	// +optional
	// +listType=atomic
	Errors []string `json:"errors,omitempty"`
}

// StatusCollectorList is a list of StatusCollectors.
//
// +kubebuilder:object:root=true
type StatusCollectorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatusCollector `json:"items"`
}
