package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CombinedStatus holds what the StatusCollectors that a BindingPolicy names for an object yield. There is one for each object and
// policy with any.
//
// Its name is the UID of the object, a dot, and the UID of the policy. Its namespace is that of the object; for a
// cluster-scoped object, kubestellar-report. The labels status.kubestellar.io/api-group, …/resource, …/namespace, …/name and
// …/binding-policy say what it is about; where a name is no valid value of a label, the label holds an abridgment of it, and the
// annotation of the same key the name.
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

	// results has an entry for each StatusCollector that is there and has no errors, sorted by name.
	// +optional
	// +listType=atomic
	Results []NamedStatusCombination `json:"results,omitempty"`
}

// NamedStatusCombination is the table that one StatusCollector yields.
type NamedStatusCombination struct {
	// name of the StatusCollector.
	Name string `json:"name"`

	// columnNames are the names of its columns.
	// +listType=atomic
	ColumnNames []string `json:"columnNames"`

	// rows are sorted: by name of the cluster if the StatusCollector selects, by the values of groupBy if it aggregates.
	// +optional
	// +listType=atomic
	Rows []StatusCombinationRow `json:"rows,omitempty"`

	// rowErrors say which expressions could not be evaluated, each with the first cluster for which it could not. The column of
	// the filter is called filter. A cluster with an error is left out of aggregates; a row that is selected holds the error in
	// place of the value.
	// +optional
	// +listType=atomic
	RowErrors []RowError `json:"rowErrors,omitempty"`

	// aggregationErrors say which aggregates are not what they should be.
	// +optional
	// +listType=atomic
	AggregationErrors []AggregationError `json:"aggregationErrors,omitempty"`

	// omittedRows is how many more rows there are than limit allows, or than one object can hold. Starling's own addition.
	// +optional
	OmittedRows int64 `json:"omittedRows,omitempty"`
}

// StatusCombinationRow is a row of a table.
type StatusCombinationRow struct {
	// columns are the values, in the order of columnNames.
	// +listType=atomic
	Columns []Value `json:"columns"`
}

// RowError says that an expression could not be evaluated for a cluster.
type RowError struct {
	// wec is the first cluster for which it could not.
	WEC Destination `json:"wec"`
	// columnName is the column that the expression is of.
	ColumnName string `json:"columnName"`
	// error says why.
	Error string `json:"error"`
}

// AggregationError says that an aggregate is not what it should be.
type AggregationError struct {
	// columnName is the column of the aggregate.
	ColumnName string `json:"columnName"`
	// error says why.
	Error string `json:"error"`
}

// ValueType says which kind of value a Value is.
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

// Value is a JSON value: that in the field which belongs to its type.
type Value struct {
	// type says which field holds the value; none does for Null.
	Type ValueType `json:"type"`

	// string is the value of type String. Timestamps and durations are strings too.
	// +optional
	String *string `json:"string,omitempty"`

	// float is the text of the value of type Number, whole or not; also NaN, +Inf and -Inf.
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
