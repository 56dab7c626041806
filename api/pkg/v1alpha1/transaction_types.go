package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// TransactionFinalizer keeps a Transaction until it has released the Lock, and until nothing names
// it as an owner. Owner: the transactions controller.
const TransactionFinalizer = "transaction.pkg.crossplane.io"

// AnnotationCollected marks a Transaction that is deleted because of the limit of the history, not
// by a user. Owner: the transactions controller.
const AnnotationCollected = "pkg.crossplane.io/history-collected"

// Transaction is one change of the installed packages. The whole change is validated before
// anything is changed. Transactions run one after the other.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=tx,categories=crossplane
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="NUMBER",type=integer,JSONPath=`.status.transactionNumber`
// +kubebuilder:printcolumn:name="CHANGE",type=string,JSONPath=`.spec.change`
// +kubebuilder:printcolumn:name="VALIDATED",type=string,JSONPath=`.status.conditions[?(@.type=='Validated')].status`
// +kubebuilder:printcolumn:name="INSTALLED",type=string,JSONPath=`.status.conditions[?(@.type=='Installed')].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].status`
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.status.conditions[?(@.type=='Ready')].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="FAILURES",type=integer,priority=1,JSONPath=`.status.failures`
// +kubebuilder:printcolumn:name="PACKAGE",type=string,priority=1,JSONPath=`.metadata.labels.pkg\.crossplane\.io/package`
type Transaction struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the change. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: create another Transaction"
	Spec TransactionSpec `json:"spec"`

	// status is the state of the change.
	// +optional
	Status TransactionStatus `json:"status,omitempty"`
}

// ChangeType is the type of a change.
//
// +kubebuilder:validation:Enum=Install;Delete;Replace
type ChangeType string

// Types of changes.
const (
	// ChangeTypeInstall installs a version of a package. If its source is installed, it is updated.
	ChangeTypeInstall ChangeType = "Install"
	// ChangeTypeDelete removes a package.
	ChangeTypeDelete ChangeType = "Delete"
	// ChangeTypeReplace replaces a package by one of another source, which adopts its
	// CustomResourceDefinitions.
	ChangeTypeReplace ChangeType = "Replace"
)

// DefaultRetryLimit is how often a Transaction is tried by default.
const DefaultRetryLimit = 5

// TransactionSpec is a change of the installed packages.
//
// +kubebuilder:validation:XValidation:rule="has(self.install) == (self.change == 'Install')",message="install is required if change is Install, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="has(self.delete) == (self.change == 'Delete')",message="delete is required if change is Delete, and forbidden otherwise"
// +kubebuilder:validation:XValidation:rule="has(self.replace) == (self.change == 'Replace')",message="replace is required if change is Replace, and forbidden otherwise"
type TransactionSpec struct {
	// change is the type of the change.
	Change ChangeType `json:"change"`

	// install is the package to install. Required if change is Install.
	// +optional
	Install *InstallSpec `json:"install,omitempty"`

	// delete is the package to remove. Required if change is Delete.
	// +optional
	Delete *DeleteSpec `json:"delete,omitempty"`

	// replace is the package to replace, and its replacement. Required if change is Replace.
	// +optional
	Replace *ReplaceSpec `json:"replace,omitempty"`

	// retryLimit is how often the transaction may fail. After that it is not tried again. 0 and 1
	// both try it once.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	RetryLimit *int64 `json:"retryLimit,omitempty"`
}

// InstallSpec is a package to install.
type InstallSpec struct {
	// package is a copy of the package as it was when the transaction was created. It is used at
	// each try.
	Package PackageSnapshot `json:"package"`
}

// DeleteSpec is a package to remove.
type DeleteSpec struct {
	// source is the repository of the package, without tag and digest.
	// +kubebuilder:validation:MinLength=1
	Source string `json:"source"`
}

// ReplaceSpec is a package to replace, and its replacement.
type ReplaceSpec struct {
	// source is the repository of the package to replace, without tag and digest.
	// +kubebuilder:validation:MinLength=1
	Source string `json:"source"`

	// package is the replacement.
	Package PackageSnapshot `json:"package"`
}

// PackageSnapshot is a copy of a package.
type PackageSnapshot struct {
	// apiVersion of the package, such as pkg.crossplane.io/v1.
	APIVersion string `json:"apiVersion"`

	// kind of the package: Provider, Configuration or Function.
	Kind string `json:"kind"`

	// metadata of the package.
	Metadata PackageMetadata `json:"metadata"`

	// spec of the package.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`
}

// PackageMetadata is the part of the metadata of a package that is needed to install it.
type PackageMetadata struct {
	// name of the package.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// uid of the package. If it is absent, the package of that name is used, and created if there
	// is none.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// labels of the package.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// TransactionStatus is the state of a change.
type TransactionStatus struct {
	// conditions of the transaction: see TransactionConditionReady and those before it.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// failures is how often the transaction has failed.
	// +optional
	Failures int64 `json:"failures,omitempty"`

	// transactionNumber orders transactions by when they first held the Lock.
	// +optional
	TransactionNumber int64 `json:"transactionNumber,omitempty"`

	// proposedLockPackages are all packages that the Lock lists if the transaction succeeds.
	// +optional
	// +listType=atomic
	ProposedLockPackages []pkgv1beta1.LockPackage `json:"proposedLockPackages,omitempty"`

	// changes is what the transaction changes, or would change if only validation was requested.
	// +optional
	// +listType=atomic
	Changes []PackageChange `json:"changes,omitempty"`

	// warnings are findings of the validation that do not keep the transaction from going on.
	// +optional
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`

	// startTime is when the transaction first held the Lock.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the transaction ended, with or without success.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// PackageChange is the change of one package.
type PackageChange struct {
	// source is the repository of the package.
	Source string `json:"source"`
	// from is the version that was installed. It is absent if there was none.
	// +optional
	From string `json:"from,omitempty"`
	// to is the version that is installed. It is absent if the package is removed.
	// +optional
	To string `json:"to,omitempty"`
	// created, updated and deleted are the objects of the package that change, as
	// <kind>.<group>/<name>. At most 50 each are listed.
	// +optional
	// +listType=atomic
	Created []string `json:"created,omitempty"`
	// +optional
	// +listType=atomic
	Updated []string `json:"updated,omitempty"`
	// +optional
	// +listType=atomic
	Deleted []string `json:"deleted,omitempty"`
}

// TransactionList is a list of Transactions.
//
// +kubebuilder:object:root=true
type TransactionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Transaction `json:"items"`
}
