package store

import (
	"fmt"
	"slices"
	"testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

func TestRecordAuthor(t *testing.T) {
	var many []string
	for i := range maxAuthors {
		many = append(many, fmt.Sprint("u", i))
	}
	for name, tc := range map[string]struct {
		authors []string
		changed bool
		user    string
		want    []string
		// resolved: the write removes the condition on merge conflicts.
		resolved bool
	}{
		"First":       {[]string{"a"}, true, "b", []string{"a", "b"}, false},
		"Again":       {[]string{"a", "b"}, true, "a", []string{"a", "b"}, false},
		"SameContent": {[]string{"a"}, false, "b", []string{"a"}, false},
		"NoConflicts": {[]string{"a"}, false, "b", []string{"a", "b"}, true},
		"NotKnown":    {nil, true, "b", nil, false},
		"Bounded":     {many, true, "b", many, false},
	} {
		before := &storev1alpha1.PackageRevision{}
		before.Status.Authors, before.Status.ContentDigest = tc.authors, "one"
		after := before.DeepCopy()
		if tc.changed {
			after.Status.ContentDigest = "two"
		}
		if tc.resolved {
			before.Status.Conditions = []porchv1alpha1.Condition{{Type: "MergeConflicts", Status: "True"}}
			after.Status.Conditions = nil
		}
		recordAuthor(before, after, tc.user)
		if !slices.Equal(after.Status.Authors, tc.want) {
			t.Errorf("%s: %q, want %q", name, after.Status.Authors, tc.want)
		}
	}
}
