package resolve

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSolution(t *testing.T) {
	w := world{
		"a":      {"v1.0.0": "b >=v1", "v2.0.0": "b >=v2; c"},
		"b":      {"v1.0.0": "", "v2.0.0": ""},
		"c":      {"v1.0.0": ""},
		"orphan": {"v1.0.0": ""},
		"x":      {"v1.0.0": "gone; c v3"},
	}
	p := Problem{
		Roots:  roots("a v2.0.0 subject", "x v1.0.0"),
		Locked: w.locked("a v1.0.0", "b v1.0.0", "orphan v1.0.0", "x v1.0.0", "orphan v1.0.0"),
	}
	p.Locked[4].Name = "z-revision"
	got := resolveAll(t, w, p)
	version := func(name, tag string) Version { return Version{Tag: tag, Digest: digestOf(name, tag)} }
	const group = "pkg.crossplane.io/v1"
	want := &Solution{
		Packages: []Selected{
			{
				Package:  Package{APIVersion: group, Kind: "Provider", Source: repo("b"), Version: version("b", "v2.0.0")},
				Previous: version("b", "v1.0.0"), Change: ChangeUpgrade,
			},
			{
				Package: Package{Kind: "Provider", Source: repo("c"), Version: version("c", "v1.0.0")},
				Change:  ChangeInstall,
			},
			{
				Package: Package{
					APIVersion: group, Kind: "Provider", Source: repo("a"), Version: version("a", "v2.0.0"),
					Dependencies: requires("b >=v2; c"),
				},
				Previous: version("a", "v1.0.0"), Change: ChangeUpgrade,
			},
			{
				Package: Package{
					Name: "orphan-revision", APIVersion: group, Kind: "Provider", Source: repo("orphan"), Version: version("orphan", "v1.0.0"),
				},
				Previous: version("orphan", "v1.0.0"),
			},
			{
				Package: Package{
					Name: "x-revision", APIVersion: group, Kind: "Provider", Source: repo("x"), Version: version("x", "v1.0.0"),
					Dependencies: requires("gone; c v3"),
				},
				Previous: version("x", "v1.0.0"),
			},
		},
		Orphans: []string{repo("orphan")},
		Unmet: []Step{
			{Package: "x", Source: repo("x"), Version: "v1.0.0", State: Installed, Requires: "gone", RequiredSource: repo("gone")},
		},
		Duplicates: p.Locked[4:],
	}
	// x requires another version of c. That it was not installed before does not matter.
	const wantError = "no version of c fits all packages that require it: a v2.0.0 (wanted) requires c; " +
		"x v1.0.0 (installed) requires c v3. Change the version of Provider/a or Provider/x"
	if got.err == nil || got.err.Error() != wantError {
		t.Errorf("Resolve() = %v, want %v", got.err, wantError)
	}
	p.Roots[1].SkipDependencyResolution = true
	want.Unmet = nil
	got = resolveAll(t, w, p)
	if diff := cmp.Diff(want, got.solution); diff != "" {
		t.Errorf("solution (-want +got):\n%s%v", diff, got.err)
	}
}

func TestUnmet(t *testing.T) {
	w := world{"a": {"v1.0.0": ""}, "x": {"v1.0.0": "gone v1; d >=v2"}, "d": {"v1.0.0": "", "v2.0.0": ""}}
	locked := w.locked("x v1.0.0", "d v1.0.0")
	tests := map[string]struct {
		roots []Root
		want  []string
	}{
		"Unrelated": {
			roots: roots("a v1.0.0 subject", "x v1.0.0"),
			want:  []string{"x v1.0.0 (installed) requires d >=v2", "x v1.0.0 (installed) requires gone v1"},
		},
		"Repaired": {
			roots: roots("d v2.0.0 subject", "x v1.0.0"),
			want:  []string{"x v1.0.0 (installed) requires gone v1"},
		},
		"SameVersionAgain": {
			roots: roots("d v1.0.0 subject", "x v1.0.0"),
			want:  []string{"x v1.0.0 (installed) requires d >=v2", "x v1.0.0 (installed) requires gone v1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := resolveAll(t, w, Problem{Roots: tt.roots, Locked: locked})
			if got.err != nil {
				t.Fatal(got.err)
			}
			var unmet []string
			for _, step := range got.solution.Unmet {
				unmet = append(unmet, step.String())
			}
			if diff := cmp.Diff(tt.want, unmet); diff != "" {
				t.Errorf("unmet (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChange(t *testing.T) {
	digest := digestOf("a", "v1.0.0")
	tests := map[string]struct {
		locked, wanted string
		want           Change
	}{
		"Same":            {locked: "v1.0.0@" + digest, wanted: "v1.0.0", want: ChangeNone},
		"DigestIsNew":     {locked: "v1.0.0", wanted: "v1.0.0", want: ChangeOther},
		"TagMoved":        {locked: "v1.0.0@" + digestOf("a", "old"), wanted: "v1.0.0", want: ChangeOther},
		"Upgrade":         {locked: "v0.9.0", wanted: "v1.0.0", want: ChangeUpgrade},
		"Downgrade":       {locked: "v1.1.0", wanted: "v1.0.0", want: ChangeDowngrade},
		"PartialVersions": {locked: "v1", wanted: "v1.0.0", want: ChangeOther},
		"NotComparable":   {locked: "main", wanted: "v1.0.0", want: ChangeOther},
		"DigestOnly":      {locked: digest, wanted: digest, want: ChangeNone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := world{"a": {"v1.0.0": ""}}
			got := resolveAll(t, w, Problem{
				Roots:  roots("a " + tt.wanted + " subject"),
				Locked: []Package{{Name: "a-1", Source: repo("a"), Version: ParseVersion(tt.locked)}},
			})
			if got.err != nil {
				t.Fatal(got.err)
			}
			if diff := cmp.Diff(tt.want, got.solution.Packages[0].Change); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveErrors(t *testing.T) {
	tests := map[string]struct {
		problem Problem
		want    string
	}{
		"SubjectWithoutVersion": {
			problem: Problem{Roots: roots("a subject")},
			want:    "resolve Provider/a: neither tag nor digest",
		},
		"HubVersion": {
			problem: Problem{HubVersion: "new"},
			want:    `parse hub version "new": invalid semantic version`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(&tt.problem, &Knowledge{})
			if err == nil || err.Error() != tt.want {
				t.Errorf("Resolve() = %v, want %v", err, tt.want)
			}
			if _, ok := errors.AsType[*Conflict](err); ok {
				t.Errorf("Resolve() = a conflict %v, want another error", err)
			}
		})
	}
}

// TestSameNames checks that packages with one name in two repositories have different names.
func TestSameNames(t *testing.T) {
	k := &Knowledge{}
	a, one, two := repo("a"), "one.example.org/family", "two.example.org/family"
	k.AddManifest(a, "v1.0.0", Manifest{Dependencies: []Dependency{{Source: one}, {Source: two, Constraint: "v2"}}})
	k.AddTags(one, []string{"v1.0.0"})
	k.AddManifest(one, "v1.0.0", Manifest{})
	k.AddTags(two, []string{"v1.0.0"})
	_, err := Resolve(&Problem{Roots: roots("a v1.0.0 subject")}, k)
	const want = "Package a requires two.example.org/family v2, but no compatible version found. " +
		"The highest version in two.example.org/family is v1.0.0"
	if err == nil || err.Error() != want {
		t.Errorf("Resolve() = %v, want %s", err, want)
	}
}
