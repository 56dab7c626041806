package store

import (
	"slices"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// maxAuthors bounds status.authors. Further authors are not recorded: a revision with that many has
// other authors than the controller in any case.
const maxAuthors = 16

// recordAuthor adds a user to the authors of a revision if the content changed, or the condition on
// merge conflicts. An author stays one, because later changes build on the earlier content. If the
// authors are not known, the user must not become the only one.
func recordAuthor(before, after *storev1alpha1.PackageRevision, user string) {
	authors := before.Status.Authors
	same := after.Status.ContentDigest == before.Status.ContentDigest && conflictsOf(before) == conflictsOf(after)
	if same || len(authors) == 0 || len(authors) >= maxAuthors || slices.Contains(authors, user) {
		return
	}
	after.Status.Authors = append(slices.Clone(authors), user)
}

// conflictsOf returns the condition on merge conflicts, which is not part of the content. Who
// removes it has decided that what a person published may be overwritten.
func conflictsOf(cr *storev1alpha1.PackageRevision) porchv1alpha1.Condition {
	for _, c := range cr.Status.Conditions {
		if c.Type == upgrade.ConditionMergeConflicts {
			return c
		}
	}
	return porchv1alpha1.Condition{}
}
