package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LockName is the name of the Lock of a workload definition space. In an inventory and transport
// space, each cluster has a Lock of its name.
const LockName = "lock"

// Annotations of the Lock of a workload definition space. Owner of the first three: the
// transactions controller.
const (
	// AnnotationCurrentTransaction is the name of the Transaction that holds the Lock. Only one
	// Transaction at a time does.
	AnnotationCurrentTransaction = "pkg.crossplane.io/current-transaction"
	// AnnotationCurrentTransactionUID is the UID of that Transaction: another of the same name is
	// not the holder. If it is missing, the name counts.
	AnnotationCurrentTransactionUID = "pkg.crossplane.io/current-transaction-uid"
	// AnnotationNextTransactionNumber is the number that the next Transaction gets.
	AnnotationNextTransactionNumber = "pkg.crossplane.io/next-transaction-number"
	// AnnotationTransactionHistoryLimit is the number of ended Transactions that are kept. The
	// default is DefaultTransactionHistoryLimit; 0 keeps all. Owner: the user.
	AnnotationTransactionHistoryLimit = "pkg.crossplane.io/transaction-history-limit"
)

// Annotations of the Lock of a cluster, in an inventory and transport space. Nobody holds it: each
// write is based on the resourceVersion that was validated. Owner: the transactions controllers.
const (
	// AnnotationLastTransaction is the Transaction that wrote the Lock last, after the name of its
	// workload definition space and a slash.
	AnnotationLastTransaction = "pkg.crossplane.io/last-transaction"
	// AnnotationPackagesOf, followed by the UID of a workload definition space, lists the packages
	// that this space has on the cluster: the names of revisions, separated by commas.
	AnnotationPackagesOf = "packages.pkg.crossplane.io/"
)

// DefaultTransactionHistoryLimit is the number of ended Transactions that are kept by default.
const DefaultTransactionHistoryLimit = 10

// Lock lists the packages that are installed. The Transaction that holds it may change them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="TRANSACTION",type=string,JSONPath=`.metadata.annotations.pkg\.crossplane\.io/current-transaction`
// +kubebuilder:printcolumn:name="NEXT",type=string,priority=1,JSONPath=`.metadata.annotations.pkg\.crossplane\.io/next-transaction-number`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Lock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// packages are the packages that are installed, with their active revisions.
	// +optional
	// +listType=atomic
	Packages []LockPackage `json:"packages,omitempty"`

	// status is not used by Starling.
	// +optional
	Status LockStatus `json:"status,omitempty"`
}

// PackageType is the kind of a package, in an older form: Configuration, Provider or Function.
// Clients that know it write null for a package that has a kind, so the API server does not check
// it.
type PackageType string

// LockPackage is a package that is installed.
type LockPackage struct {
	// name is the name of the active revision.
	Name string `json:"name"`

	// apiVersion of the package.
	// +optional
	APIVersion *string `json:"apiVersion,omitempty"`

	// kind of the package.
	// +optional
	Kind *string `json:"kind,omitempty"`

	// type is the kind of the package, if kind is absent.
	// +optional
	// +nullable
	Type *PackageType `json:"type,omitempty"`

	// source is the repository of the package, without tag and digest.
	Source string `json:"source"`

	// version is the tag and the digest of the package: "v1.0.0@sha256:…". Without a tag it is the
	// digest only.
	Version string `json:"version"`

	// dependencies are the packages that this one requires.
	// +listType=atomic
	Dependencies []Dependency `json:"dependencies"`
}

// Dependency is a package that another one requires.
type Dependency struct {
	// package is the repository of the package, without tag and digest.
	Package string `json:"package"`

	// apiVersion of the package.
	// +optional
	APIVersion *string `json:"apiVersion,omitempty"`

	// kind of the package.
	// +optional
	Kind *string `json:"kind,omitempty"`

	// type is the kind of the package, if kind is absent.
	// +optional
	// +nullable
	Type *PackageType `json:"type,omitempty"`

	// constraints are the versions that are suitable: a range of semantic versions, or a digest.
	Constraints string `json:"constraints"`
}

// LockStatus is the observed state of a Lock. Starling does not set it: the state is that of the
// Transactions.
type LockStatus struct {
	// conditions of the Lock.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LockList is a list of Locks.
//
// +kubebuilder:object:root=true
type LockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Lock `json:"items"`
}
