package store

import (
	"slices"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// maxAuthors bounds status.authors. Further authors are not recorded: a revision with that many has
// other authors than the controller in any case.
const maxAuthors = 16

// recordAuthor adds a user to the authors of a revision if the content changed. An author stays
// one, because later changes build on the earlier content. If the authors are not known, the user
// must not become the only one.
func recordAuthor(before, after *storev1alpha1.PackageRevision, user string) {
	authors := before.Status.Authors
	if after.Status.ContentDigest == before.Status.ContentDigest || len(authors) == 0 || len(authors) >= maxAuthors || slices.Contains(authors, user) {
		return
	}
	after.Status.Authors = append(slices.Clone(authors), user)
}
