// Package gates reconciles the readiness gate PackageTransactionValidated of PackageRevisions.
//
// The package-server adds the gate, with the write that makes it needed. For each revision that has
// it and can still be approved, the controller creates one Transaction for its content, which only
// validates, and writes the result into the condition of the revision. The write is based on the
// version of the revision that has this content, and such a write does not change the content: so a
// condition that is True is about the present content. A write that changes the content makes the
// condition Unknown.
//
// The Transaction of another content is deleted, unless it has ended: then it belongs to the
// history. Those of a revision that was deleted are deleted with it.
package gates
