package store

import (
	"fmt"
	"slices"
	"testing"

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
	}{
		"First":       {[]string{"a"}, true, "b", []string{"a", "b"}},
		"Again":       {[]string{"a", "b"}, true, "a", []string{"a", "b"}},
		"SameContent": {[]string{"a"}, false, "b", []string{"a"}},
		"NotKnown":    {nil, true, "b", nil},
		"Bounded":     {many, true, "b", many},
	} {
		before := &storev1alpha1.PackageRevision{}
		before.Status.Authors, before.Status.ContentDigest = tc.authors, "one"
		after := before.DeepCopy()
		if tc.changed {
			after.Status.ContentDigest = "two"
		}
		recordAuthor(before, after, tc.user)
		if !slices.Equal(after.Status.Authors, tc.want) {
			t.Errorf("%s: %q, want %q", name, after.Status.Authors, tc.want)
		}
	}
}
