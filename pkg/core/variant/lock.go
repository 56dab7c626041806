package variant

import (
	"slices"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/upgrade"
)

// Lock says where the content of a revision lies, so that another can say what it was made from. It is comparable and may be the key of
// an index.
type Lock struct {
	Repository, Directory, Ref, Commit string
}

// Locks returns all that may be said to have been made from a revision: where it lies here, and where else it does, once it was exported.
func Locks(r *storev1alpha1.PackageRevision) []Lock {
	here := lockOf(upgrade.LocateHere(r))
	if there := lockOf(upgrade.Locate(r)); there != here {
		return []Lock{here, there}
	}
	return []Lock{here}
}

func lockOf(l *porchv1alpha1.Locator) Lock {
	return Lock{l.Git.Repo, l.Git.Directory, l.Git.Ref, l.Git.Commit}
}

// upstreamLock is what a revision was made from, or upgraded to, last.
func upstreamLock(r *storev1alpha1.PackageRevision) (Lock, bool) {
	l := r.Status.UpstreamLock
	if l == nil || l.Git == nil || l.Git.Ref == "" {
		return Lock{}, false
	}
	return lockOf(l), true
}

// madeFrom tells whether a revision was made from an upstream, or upgraded to it. What does not say what it was made from counts as up to
// date: nothing could be merged into it.
func madeFrom(r, upstream *storev1alpha1.PackageRevision) bool {
	lock, said := upstreamLock(r)
	if !said {
		return true
	}
	return slices.Contains(Locks(upstream), lock)
}
