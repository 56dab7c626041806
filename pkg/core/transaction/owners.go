package transaction

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
)

// Owner is an object that owns others.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

func (o Owner) reference(controls bool) metav1.OwnerReference {
	ref := metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID}
	if controls {
		ref.Controller = &controls
	}
	return ref
}

// OwnerOf returns the transaction as an owner.
func OwnerOf(tx *pkgv1alpha1.Transaction) Owner {
	return Owner{APIVersion: pkgv1alpha1.GroupVersion.String(), Kind: "Transaction", Name: tx.Name, UID: tx.UID}
}

// isTransaction reports whether the owner is a Transaction.
func isTransaction(ref metav1.OwnerReference) bool {
	return ref.Kind == "Transaction" && strings.HasPrefix(ref.APIVersion, pkgv1alpha1.GroupName+"/")
}

// OfRevision returns the owners of a revision: its package and the last transaction that wrote it.
// Owners of other kinds stay.
func OfRevision(current []metav1.OwnerReference, pkg, tx Owner) []metav1.OwnerReference {
	return with(with(withoutTransactions(current), pkg.reference(false)), tx.reference(false))
}

// OfObject returns the owners of an object of a package: the revision that controls it, its
// package, and the last transaction that wrote it. Other revisions that owned it still do, but none
// of them controls it. That a stranger controls it is for the caller to refuse.
func OfObject(current []metav1.OwnerReference, revision, pkg, tx Owner) []metav1.OwnerReference {
	refs := withoutTransactions(current)
	for i := range refs {
		refs[i].Controller, refs[i].BlockOwnerDeletion = nil, nil
	}
	return with(with(with(refs, revision.reference(true)), pkg.reference(false)), tx.reference(false))
}

// Controlled returns the owners of an object that this revision controls again, because the one
// that was to control it instead did not become active.
func Controlled(current []metav1.OwnerReference, revision Owner) []metav1.OwnerReference {
	refs := slices.Clone(current)
	for i := range refs {
		refs[i].Controller, refs[i].BlockOwnerDeletion = nil, nil
	}
	return with(refs, revision.reference(true))
}

// Dropped returns the owners of an object that a version of its package does not have any more: the
// revision of that version owns it, and nothing controls it.
func Dropped(current []metav1.OwnerReference, revision Owner) []metav1.OwnerReference {
	refs := slices.Clone(current)
	for i := range refs {
		refs[i].Controller, refs[i].BlockOwnerDeletion = nil, nil
	}
	return with(refs, revision.reference(false))
}

// Without returns the owners without those of the given UIDs.
func Without(current []metav1.OwnerReference, uids ...types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(current), func(ref metav1.OwnerReference) bool { return slices.Contains(uids, ref.UID) })
}

// Released returns the owners of an object that stays when those of the given UIDs go. If nothing
// but transactions would own it, nothing does.
func Released(current []metav1.OwnerReference, uids ...types.UID) []metav1.OwnerReference {
	refs := Without(current, uids...)
	if Orphaned(refs) {
		return withoutTransactions(refs)
	}
	return refs
}

// Orphaned reports whether no owner is left but transactions: the garbage collector would delete
// the object with the last of them.
func Orphaned(refs []metav1.OwnerReference) bool {
	return len(refs) > 0 && !slices.ContainsFunc(refs, func(ref metav1.OwnerReference) bool { return !isTransaction(ref) })
}

// withoutTransactions returns a copy without owners that are transactions: only the last one is
// kept.
func withoutTransactions(refs []metav1.OwnerReference) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), isTransaction)
}

// with returns the owners with this one, in place of one with the same UID.
func with(refs []metav1.OwnerReference, ref metav1.OwnerReference) []metav1.OwnerReference {
	if i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == ref.UID }); i >= 0 {
		refs[i] = ref
		return refs
	}
	return append(refs, ref)
}
