package store

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

func TestNextNumber(t *testing.T) {
	for name, tc := range map[string]struct {
		highest, held, imported int
		taken                   bool
		want                    int
	}{
		"HolderIsPublished":        {2, 2, 0, true, 3},
		"HolderIsNotPublished":     {1, 2, 0, false, 2},
		"HolderAndItsNumberAreOut": {1, 2, 0, true, 3},
		"AllAreDeleted":            {0, 5, 0, true, 6},
		"TheRepositoryHasMore":     {1, 2, 7, true, 8},
		"OnlyReserved":             {0, 0, 4, true, 5},
	} {
		held := &storev1alpha1.PackageNumber{Number: tc.held, Imported: tc.imported}
		if got := nextNumber(tc.highest, held, tc.taken); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestCheckReviewed(t *testing.T) {
	before := &storev1alpha1.PackageRevision{}
	before.Status.ContentDigest = "sha256:now"
	for digest, want := range map[string]bool{"": true, "sha256:now": true, "sha256:earlier": false} {
		if err := checkReviewed(before, digest); (err == nil) != want || err != nil && !apierrors.IsConflict(err) {
			t.Errorf("%q: %v", digest, err)
		}
	}
}
