package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusCollector is a query that makes one table from the states of one object in several
// clusters. It works like an SQL SELECT over a table with one row for each cluster that the object
// is delivered to. BindingPolicies name StatusCollectors in spec.downsync[].statusCollectors. The
// resulting tables are in CombinedStatuses.
//
// Example: list the clusters in which a Deployment has fewer available replicas than desired.
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

	// spec is the query.
	// +optional
	Spec StatusCollectorSpec `json:"spec,omitempty"`

	// status is the state of the StatusCollector, as the binding-controller observed it.
	// +optional
	Status StatusCollectorStatus `json:"status,omitempty"`
}

// StatusCollectorSpec is a query. It has either select, for one row per cluster, or combinedFields,
// with or without groupBy, for rows that aggregate over clusters.
type StatusCollectorSpec struct {
	// filter excludes the clusters for which it is false or null.
	// +optional
	Filter *Expression `json:"filter,omitempty"`

	// groupBy groups clusters: clusters for which all these expressions have the same values are
	// aggregated into one row. The values are the first columns of the row. groupBy must be empty
	// if combinedFields is empty.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	GroupBy []NamedExpression `json:"groupBy,omitempty"`

	// combinedFields are columns that aggregate over clusters. Without groupBy the table has one
	// row, for all clusters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	CombinedFields []NamedAggregator `json:"combinedFields,omitempty"`

	// select makes one row with these columns for each cluster. groupBy and combinedFields must be
	// empty if select is not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Select []NamedExpression `json:"select,omitempty"`

	// limit is the maximum number of rows. The rows are sorted by the name of the cluster, or by
	// the values of groupBy, and the first ones are included. 0 means the default.
	// +required
	// +kubebuilder:default=20
	// +kubebuilder:validation:Minimum=0
	Limit int64 `json:"limit"`
}

// Expression is an expression in the Common Expression Language of Kubernetes
// (https://kubernetes.io/docs/reference/using-api/cel/). It is evaluated for one object in one
// cluster, with these variables:
//   - obj, the object in the workload definition space, without its status;
//   - returned.status, the status that the cluster returned, or null;
//   - inventory.name and inventory.labels, the name and the labels of the cluster;
//   - propagation.lastReturnedUpdateTimestamp, the time of the last change of the status, or null
//     if the cluster has not reported the object.
//
// +kubebuilder:validation:MaxLength=16384
type Expression string

// NamedExpression is a column and the expression that yields its values.
type NamedExpression struct {
	// name is the name of the column.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// def is the expression that yields the value.
	// +required
	Def Expression `json:"def"`
}

// NamedAggregator is a column that aggregates over clusters.
type NamedAggregator struct {
	// name is the name of the column.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// type is the way to aggregate: COUNT, SUM, AVG, MIN or MAX.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Type AggregatorType `json:"type"`

	// subject is the expression whose values are aggregated. It yields a number, a string that
	// contains a number, or null, which is skipped. It must be absent for COUNT, and present for
	// the other types.
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
	// AggregatorAvg is the sum divided by the number of clusters, including clusters with null.
	AggregatorAvg AggregatorType = "AVG"
	AggregatorMin AggregatorType = "MIN"
	AggregatorMax AggregatorType = "MAX"
)

// StatusCollectorStatus is the state of a StatusCollector, as the binding-controller observed it.
type StatusCollectorStatus struct {
	// observedGeneration is the generation of the StatusCollector that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration"`

	// errors are the mistakes in spec, and then the StatusCollector is not used; or the objects for
	// which its expressions were not evaluated within a minute, whose CombinedStatuses stay as they
	// were.
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
