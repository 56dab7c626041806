package variant

import (
	"slices"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// Lock is the location of the content of a revision. Revisions refer to their upstream by it. It is
// comparable and may be the key of an index.
type Lock struct {
	Repository, Directory, Ref, Commit string
}

// Locks returns all locks that refer to a revision: its location here and, if it was imported or
// exported, its external location.
func Locks(r *storev1alpha1.PackageRevision) []Lock {
	here := lockOf(upgrade.LocateHere(r))
	if external := lockOf(upgrade.Locate(r)); external != here {
		return []Lock{here, external}
	}
	return []Lock{here}
}

func lockOf(l *porchv1alpha1.Locator) Lock {
	return Lock{l.Git.Repo, l.Git.Directory, l.Git.Ref, l.Git.Commit}
}

// upstreamLock returns the lock of the upstream that was last cloned or upgraded to.
func upstreamLock(r *storev1alpha1.PackageRevision) (Lock, bool) {
	l := r.Status.UpstreamLock
	if l == nil || l.Git == nil || l.Git.Ref == "" {
		return Lock{}, false
	}
	return lockOf(l), true
}

// createdFrom reports whether a revision was created from an upstream, or upgraded to it. A
// revision without a lock counts as up to date, because nothing can be merged into it.
func createdFrom(r, upstream *storev1alpha1.PackageRevision) bool {
	lock, ok := upstreamLock(r)
	return !ok || slices.Contains(Locks(upstream), lock)
}
