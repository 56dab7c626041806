package merge_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
)

func TestKptfile(t *testing.T) {
	mutators := func(lines ...string) []string { return append([]string{"pipeline:", "  mutators:"}, lines...) }
	cases := map[string]struct {
		reason                         string
		original, updated, local, want []string
		conflicts                      []merge.Conflict
	}{
		"Info": {
			original: []string{"info:", "  description: a"}, updated: []string{"info:", "  description: b"},
			local: []string{"info:", "  description: a", "  site: mine"}, want: []string{"info:", "  description: b", "  site: mine"},
		},
		"Conflict": {
			original: []string{"info:", "  description: a"}, updated: []string{"info:", "  description: b"},
			local: []string{"info:", "  description: mine"}, want: []string{"info:", "  description: b"},
			conflicts: []merge.Conflict{{Path: "Kptfile", Field: "info.description", Kept: merge.Upstream}},
		},
		"UpstreamFromUpdated": {
			reason:   "where it came from is what upstream says; that is no conflict",
			original: []string{"upstream: {type: git, git: {ref: v0}}", "upstreamLock: {type: git, git: {commit: a}}"},
			updated:  []string{"upstream: {type: git, git: {ref: v2}}", "upstreamLock: {type: git, git: {commit: c}}"},
			local:    []string{"upstream: {type: git, git: {ref: v1}} # ours", "upstreamLock: {type: git, git: {commit: b}}"},
			want:     []string{"upstream: {type: git, git: {ref: v2}} # ours", "upstreamLock: {type: git, git: {commit: c}}"},
		},
		"UpstreamStays": {
			reason:   "it stays if upstream does not say",
			original: []string{"info: {site: a}"}, updated: []string{"info: {site: b}"},
			local: []string{"info: {site: a}", "upstream: {type: git, git: {ref: v1}}"}, want: []string{"info: {site: b}", "upstream: {type: git, git: {ref: v1}}"},
		},
		"UpstreamAdded": {
			original: nil, updated: []string{"upstream: {type: git}"}, local: []string{"info: {}"}, want: []string{"upstream: {type: git}", "info: {}"},
		},
		"FunctionsByName": {
			reason:   "functions are the same if they have the same name, whatever their image is",
			original: mutators("  - name: ns", "    image: set-namespace:v1", "  - name: labels", "    image: set-labels:v1"),
			updated:  mutators("  - name: first", "    image: x:v1", "  - name: ns", "    image: other:v2", "  - name: labels", "    image: set-labels:v1"),
			local: mutators("  - name: ns", "    image: set-namespace:v1", "    configMap: {namespace: mine}", "  - name: labels", "    image: set-labels:v1",
				"  - name: mine", "    image: y:v1"),
			want: mutators("  - name: first", "    image: x:v1", "  - name: ns", "    image: other:v2", "    configMap: {namespace: mine}",
				"  - name: labels", "    image: set-labels:v1", "  - name: mine", "    image: y:v1"),
		},
		"FunctionsWithoutName": {
			reason:   "without names, the images say which function is which",
			original: mutators("  - image: gcr.io:80/kpt-fn/set-namespace:v0.4"),
			updated:  mutators("  - image: gcr.io:80/kpt-fn/set-namespace:v0.5", "  - image: set-labels:v1"),
			local:    mutators("  - image: gcr.io:80/kpt-fn/set-namespace:v0.4", "    configMap: {namespace: mine}"),
			want:     mutators("  - image: gcr.io:80/kpt-fn/set-namespace:v0.5", "    configMap: {namespace: mine}", "  - image: set-labels:v1"),
		},
		"FunctionsThatAreTheSame": {
			reason:    "two functions are the same, so that they cannot be matched; upstream wins",
			original:  mutators("  - image: starlark:v1", "  - image: starlark:v1"),
			updated:   mutators("  - image: starlark:v2", "  - image: starlark:v1"),
			local:     mutators("  - image: starlark:v1", "  - image: starlark:v3"),
			want:      mutators("  - image: starlark:v2", "  - image: starlark:v1"),
			conflicts: []merge.Conflict{{Path: "Kptfile", Field: "pipeline.mutators", Kept: merge.Upstream}},
		},
		"FunctionDeletedUpstream": {
			original: mutators("  - name: a", "    image: a"), updated: nil, local: mutators("  - name: a", "    image: a", "  - name: b", "    image: b"),
			want: mutators("  - name: b", "    image: b"),
		},
		"Setters": {
			reason:   "values of setters that were changed here stay, and new ones come",
			original: mutators("  - image: apply-setters:v1", "    configMap:", "      replicas: \"1\""),
			updated:  mutators("  - image: apply-setters:v1", "    configMap:", "      replicas: \"1\"", "      image: nginx"),
			local:    mutators("  - image: apply-setters:v1", "    configMap:", "      replicas: \"3\" # many"),
			want:     mutators("  - image: apply-setters:v1", "    configMap:", "      replicas: \"3\" # many", "      image: nginx"),
		},
		"GatesAndConditions": {
			original: []string{"info:", "  readinessGates:", "  - conditionType: A", "status:", "  conditions:", "  - type: A", "    status: \"True\""},
			updated:  []string{"info:", "  readinessGates:", "  - conditionType: A", "  - conditionType: B", "status:", "  conditions:", "  - type: A", "    status: \"True\"", "  - type: B", "    status: \"False\""},
			local:    []string{"info:", "  readinessGates:", "  - conditionType: A", "  - conditionType: mine", "status:", "  conditions:", "  - type: A", "    status: \"False\""},
			want:     []string{"info:", "  readinessGates:", "  - conditionType: A", "  - conditionType: B", "  - conditionType: mine", "status:", "  conditions:", "  - type: A", "    status: \"False\"", "  - type: B", "    status: \"False\""},
		},
		"Inventory": {
			original: []string{"info: {site: a}"}, updated: []string{"info: {site: b}"}, local: []string{"info: {site: a}", "inventory: {name: x}"},
			want: []string{"info: {site: b}", "inventory: {name: x}"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			original, updated, local := files{"Kptfile": kptfile("base", tc.original...)}, files{"Kptfile": kptfile("base", tc.updated...)}, files{"Kptfile": kptfile("mine", tc.local...)}
			got, err := merge.Merge(merge.ResourceMerge, original, updated, local, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(kptfile("mine", tc.want...), got.Files["Kptfile"]); diff != "" {
				t.Errorf("%s\n(-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.conflicts, got.Conflicts, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\nconflicts (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestKptfileMetadata(t *testing.T) {
	meta := func(name string, lines ...string) files {
		return files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: # kpt-merge: /" + name + "\n  name: " + name + "\n  " + strings.Join(lines, "\n  ") + "\n"}
	}
	got, err := merge.Merge(merge.ResourceMerge,
		meta("base", "labels:", "  a: \"1\"", "  b: \"1\""), meta("renamed", "labels:", "  a: \"2\"", "  b: \"1\"", "annotations: {x: y}"), meta("mine", "labels:", "  a: \"1\"", "  mine: \"1\""), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(meta("mine", "labels:", "  a: \"2\"", "  mine: \"1\"", "annotations: {x: y}"), got.Files); diff != "" || got.Conflicts != nil {
		t.Errorf("%v (-want +got):\n%s", got.Conflicts, diff)
	}
}

// A Kptfile is added and deleted with its package; the root always has one.
func TestKptfileAddedAndDeleted(t *testing.T) {
	a, b, c := kptfile("a"), kptfile("b", "info: {site: b}"), kptfile("c", "info: {site: c}")
	file := func(path, content string) files {
		if content == "" {
			return files{}
		}
		return files{path: content, "s/x": ""} // so that the subpackage itself is not added or deleted
	}
	cases := map[string]struct {
		path                           string
		original, updated, local, want string
		conflicts                      []merge.Conflict
	}{
		"RootStays":           {path: "Kptfile", original: a, local: a, want: a},
		"RootAdded":           {path: "Kptfile", updated: a, want: a},
		"RootDeletedLocally":  {path: "Kptfile", original: a, updated: b, want: "", conflicts: []merge.Conflict{{Path: "Kptfile", Kept: merge.Local, Deleted: merge.Local}}},
		"RootAddedOnBoth":     {path: "Kptfile", updated: b, local: a, want: kptfile("a", "info: {site: b}")},
		"SameOnBothSides":     {path: "Kptfile", original: a, updated: b, local: b, want: b},
		"NoPackageAnyMore":    {path: "s/Kptfile", original: a, local: a, want: ""},
		"StaysSinceChanged":   {path: "s/Kptfile", original: a, local: b, want: b, conflicts: []merge.Conflict{{Path: "s/Kptfile", Kept: merge.Local, Deleted: merge.Upstream}}},
		"AddedLocally":        {path: "s/Kptfile", local: b, want: b},
		"PackageNowUpstream":  {path: "s/Kptfile", updated: b, want: b},
		"SubpackageIsRenamed": {path: "s/Kptfile", original: a, updated: c, local: a, want: c},
	}
	for name, tc := range cases {
		original, updated, local := file(tc.path, tc.original), file(tc.path, tc.updated), file(tc.path, tc.local)
		for _, f := range []files{original, updated, local} {
			f["s/x"] = ""
		}
		got, err := merge.Merge(merge.ResourceMerge, original, updated, local, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got.Files[tc.path]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.conflicts, got.Conflicts, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: conflicts (-want +got):\n%s", name, diff)
		}
	}
}
