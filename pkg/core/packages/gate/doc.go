// Package gate decides about the readiness gate PackageTransactionValidated of PackageRevisions:
// which packages need it, which Transaction answers it, and what its condition is. It is pure.
//
// A package of the package-server is delivered to the cluster of its Repository. A
// CustomResourceDefinition in it can break custom resources there, and its objects may need
// packages of pkg.crossplane.io. So a Transaction that only validates answers the gate.
//
// The name of the Transaction has a hash of everything that the answer is about: the content of the
// revision, and the published revision that it replaces. Another content has another Transaction.
package gate
