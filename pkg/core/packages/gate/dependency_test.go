package gate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

func TestUnmet(t *testing.T) {
	t.Parallel()
	installed := []pkgv1beta1.LockPackage{{Source: "example.org/org/s3", Version: "v1.2.0@sha256:1"}, {Source: "example.org/org/ec2", Version: "v1.0.0"}}
	need := func(source, constraint string) xpkg.Dependency {
		return xpkg.Dependency{Source: "example.org/org/" + source, Kind: "Provider", Constraint: constraint}
	}
	for name, tc := range map[string]struct {
		dependencies []xpkg.Dependency
		want         string
	}{
		"None":     {},
		"Met":      {dependencies: []xpkg.Dependency{need("s3", ">=v1.0.0"), need("ec2", "")}},
		"Missing":  {dependencies: []xpkg.Dependency{need("rds", ">=v1"), need("s3", "*")}, want: "MissingDependency: Package edge1.web.v1 requires example.org/org/rds >=v1, which is not installed. Install Provider example.org/org/rds first"},
		"Conflict": {dependencies: []xpkg.Dependency{need("s3", ">=v2")}, want: "VersionConflict: Package edge1.web.v1 requires example.org/org/s3 >=v2, but v1.2.0 is installed. Install a version that suits, or change the annotation of the Kptfile"},
		"Both": {
			dependencies: []xpkg.Dependency{need("s3", ">=v2"), need("rds", "")},
			want:         "MissingDependency: Package edge1.web.v1 requires example.org/org/rds, which is not installed; Package edge1.web.v1 requires example.org/org/s3 >=v2, but v1.2.0 is installed. Install Provider example.org/org/rds first",
		},
	} {
		got := ""
		if conflict := gate.Unmet("edge1.web.v1", tc.dependencies, installed); conflict != nil {
			got = conflict.Reason + ": " + conflict.Error()
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
