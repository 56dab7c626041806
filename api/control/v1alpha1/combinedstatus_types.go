package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CombinedStatus holds the tables that the StatusCollectors of a BindingPolicy produce for one
// object. There is one CombinedStatus for each object and policy for which the policy names
// StatusCollectors.
//
// Its name is the UID of the object, a dot, and the UID of the policy. Its namespace is the
// namespace of the object, or kubestellar-report for a cluster-scoped object. The labels
// status.kubestellar.io/api-group, …/resource, …/namespace, …/name and …/binding-policy name the
// object and the policy. A name that is not a valid label value is shortened in the label; the
// annotation of the same key holds the whole name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=cs
// +kubebuilder:printcolumn:name="SUBJECT_GROUP",type=string,JSONPath=`.metadata.labels['status\.kubestellar\.io/api-group']`
// +kubebuilder:printcolumn:name="SUBJECT_RSC",type=string,JSONPath=`.metadata.labels['status\.kubestellar\.io/resource']`
// +kubebuilder:printcolumn:name="SUBJECT_NS",type=string,JSONPath=`.metadata.labels['status\.kubestellar\.io/namespace']`
// +kubebuilder:printcolumn:name="SUBJECT_NAME",type=string,JSONPath=`.metadata.labels['status\.kubestellar\.io/name']`
// +kubebuilder:printcolumn:name="BINDINGPOLICY",type=string,JSONPath=`.metadata.labels['status\.kubestellar\.io/binding-policy']`
type CombinedStatus struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// results has an entry for each StatusCollector that exists and has no errors, sorted by name.
	// +optional
	// +listType=atomic
	Results []NamedStatusCombination `json:"results,omitempty"`
}

// NamedStatusCombination is the table that one StatusCollector produces.
type NamedStatusCombination struct {
	// name is the name of the StatusCollector.
	Name string `json:"name"`

	// columnNames are the names of the columns of the table.
	// +listType=atomic
	ColumnNames []string `json:"columnNames"`

	// rows are the rows of the table. They are sorted by the name of the cluster if the
	// StatusCollector has select, and by the values of groupBy if it aggregates.
	// +optional
	// +listType=atomic
	Rows []StatusCombinationRow `json:"rows,omitempty"`

	// rowErrors are the expressions that could not be evaluated, each with the first cluster for
	// which its evaluation failed. The column name of the filter is "filter". Aggregates exclude a
	// cluster with an error. A row of select holds the error instead of the value.
	// +optional
	// +listType=atomic
	RowErrors []RowError `json:"rowErrors,omitempty"`

	// aggregationErrors are the aggregates that are incomplete or have no value.
	// +optional
	// +listType=atomic
	AggregationErrors []AggregationError `json:"aggregationErrors,omitempty"`

	// omittedRows is the number of rows that are left out because of the limit of the
	// StatusCollector, or because one object cannot hold them. KubeStellar does not have this
	// field.
	// +optional
	OmittedRows int64 `json:"omittedRows,omitempty"`
}

// StatusCombinationRow is a row of a table.
type StatusCombinationRow struct {
	// columns are the values, in the order of columnNames.
	// +listType=atomic
	Columns []Value `json:"columns"`
}

// RowError reports that an expression could not be evaluated for a cluster.
type RowError struct {
	// wec is the first cluster for which the evaluation failed.
	WEC Destination `json:"wec"`
	// columnName is the name of the column that the expression defines. It is empty if the reports
	// of clusters are not known, so that their part of the table is as it was last known.
	ColumnName string `json:"columnName"`
	// error is the error of the evaluation, and the number of further clusters for which it failed.
	Error string `json:"error"`
}

// AggregationError reports that an aggregate is incomplete or has no value.
type AggregationError struct {
	// columnName is the name of the column of the aggregate.
	ColumnName string `json:"columnName"`
	// error is the reason.
	Error string `json:"error"`
}

// ValueType is the type of a Value.
//
// +kubebuilder:validation:Enum=String;Number;Bool;Null;Object;Array
type ValueType string

// Types of values.
const (
	ValueString ValueType = "String"
	ValueNumber ValueType = "Number"
	ValueBool   ValueType = "Bool"
	ValueNull   ValueType = "Null"
	ValueObject ValueType = "Object"
	ValueArray  ValueType = "Array"
)

// Value is a JSON value. The field that belongs to its type holds it.
type Value struct {
	// type is the type of the value, and selects the field that holds it. No field holds Null.
	Type ValueType `json:"type"`

	// string is the value of type String. Timestamps and durations are strings.
	// +optional
	String *string `json:"string,omitempty"`

	// float is the text of the value of type Number, with or without a fraction; also NaN, +Inf and
	// -Inf.
	// +optional
	Number *string `json:"float,omitempty"`

	// bool is the value of type Bool.
	// +optional
	Bool *bool `json:"bool,omitempty"`

	// object is the value of type Object.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Object *runtime.RawExtension `json:"object,omitempty"`

	// array is the value of type Array.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Array *runtime.RawExtension `json:"array,omitempty"`
}

// CombinedStatusList is a list of CombinedStatuses.
//
// +kubebuilder:object:root=true
type CombinedStatusList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CombinedStatus `json:"items"`
}
