package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

func TestFromLock(t *testing.T) {
	locked := []pkgv1beta1.LockPackage{
		{
			Name: "a-1", APIVersion: new("pkg.crossplane.io/v1"), Kind: new("Configuration"), Source: repo("a"), Version: "v1.0.0@sha256:ab",
			Dependencies: []pkgv1beta1.Dependency{
				{Package: repo("b"), Type: new(pkgv1beta1.PackageType("Function")), Constraints: ">=v1"},
				{Package: repo("c"), APIVersion: new("pkg.crossplane.io/v1beta1"), Kind: new("Function"), Constraints: "*"},
			},
		},
		{Name: "b-1", Type: new(pkgv1beta1.PackageType("Provider")), Source: repo("b"), Version: "sha256:ab"},
		{Name: "c-1", Type: new(pkgv1beta1.PackageType("")), Source: repo("c"), Version: "v1"},
	}
	want := []Package{
		{
			Name: "a-1", APIVersion: "pkg.crossplane.io/v1", Kind: "Configuration", Source: repo("a"),
			Version: Version{Tag: "v1.0.0", Digest: "sha256:ab"},
			Dependencies: []Dependency{
				{Source: repo("b"), APIVersion: "pkg.crossplane.io/v1", Kind: "Function", Constraint: ">=v1"},
				{Source: repo("c"), APIVersion: "pkg.crossplane.io/v1beta1", Kind: "Function", Constraint: "*"},
			},
		},
		{Name: "b-1", APIVersion: "pkg.crossplane.io/v1", Kind: "Provider", Source: repo("b"), Version: Version{Digest: "sha256:ab"}},
		{Name: "c-1", Source: repo("c"), Version: Version{Tag: "v1"}},
	}
	got := FromLock(locked)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, FromLock(ToLock(got))); diff != "" {
		t.Errorf("packages after a round trip (-want +got):\n%s", diff)
	}
	if back := ToLock(got); back[1].Dependencies == nil || back[2].Kind != nil {
		t.Errorf("ToLock() = %+v, want a list of dependencies, and no kind if it is not known", back)
	}
}
