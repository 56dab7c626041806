package apiserver

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChangedVariants(t *testing.T) {
	a := metav1.OwnerReference{APIVersion: "config.porch.kpt.dev/v1alpha1", Kind: "PackageVariant", Name: "a", UID: "1"}
	again := a
	again.UID = "2"
	other := a
	other.APIVersion, other.Name = "config.porch.kpt.dev/v1beta9", "b"
	foreign := metav1.OwnerReference{APIVersion: "v1", Kind: "PackageVariant", Name: "c", UID: "1"}
	type owners = []metav1.OwnerReference
	for name, tc := range map[string]struct {
		before, after owners
		want          []string
	}{
		"None":         {nil, nil, nil},
		"Same":         {owners{a, other}, owners{other, a}, nil},
		"Added":        {nil, owners{a}, []string{"a"}},
		"Removed":      {owners{a, other}, owners{a}, []string{"b"}},
		"AnotherUID":   {owners{a}, owners{again}, []string{"a"}},
		"Replaced":     {owners{a}, owners{other}, []string{"a", "b"}},
		"AnotherGroup": {nil, owners{foreign}, nil},
	} {
		if got := changedVariants(tc.before, tc.after); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
