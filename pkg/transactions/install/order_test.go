package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// TestSteps: a package is installed after all that it requires, and as early as that allows.
func TestSteps(t *testing.T) {
	for name, tc := range map[string]struct {
		requires [][2]string // a package with one of its dependencies, which is "" for none
		want     [][]string
	}{
		"None":        {},
		"Independent": {[][2]string{{"a"}, {"b"}, {"c"}}, [][]string{{"a", "b", "c"}}},
		"Chain":       {[][2]string{{"c"}, {"b", "c"}, {"a", "b"}}, [][]string{{"c"}, {"b"}, {"a"}}},
		"Diamond":     {[][2]string{{"d"}, {"b", "d"}, {"c", "d"}, {"a", "b"}, {"a", "c"}}, [][]string{{"d"}, {"b", "c"}, {"a"}}},
		"Longest":     {[][2]string{{"d"}, {"c", "d"}, {"b", "c"}, {"a", "d"}, {"a", "b"}}, [][]string{{"d"}, {"c"}, {"b"}, {"a"}}},
		"Installed":   {[][2]string{{"b", "elsewhere"}, {"a", "b"}}, [][]string{{"b"}, {"a"}}},
		"NotOrdered":  {[][2]string{{"a", "b"}, {"b", "a"}}, [][]string{{"a"}, {"b"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var packages []Package
			for _, pair := range tc.requires {
				if len(packages) == 0 || packages[len(packages)-1].Locked.Source != pair[0] {
					packages = append(packages, Package{Locked: pkgv1beta1.LockPackage{Source: pair[0]}})
				}
				if locked := &packages[len(packages)-1].Locked; pair[1] != "" {
					locked.Dependencies = append(locked.Dependencies, pkgv1beta1.Dependency{Package: pair[1]})
				}
			}
			var got [][]string
			for _, step := range Steps(packages) {
				var sources []string
				for _, p := range step {
					sources = append(sources, p.Locked.Source)
				}
				got = append(got, sources)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}
