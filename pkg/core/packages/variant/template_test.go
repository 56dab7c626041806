package variant_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// problems returns those of a plan, by target.
func problems(plan *variant.SetPlan) map[string]string {
	out := map[string]string{}
	for _, p := range plan.Status.Problems {
		out[p.Target] = p.Message
	}
	return out
}

func created(plan *variant.SetPlan) []string {
	var out []string
	for _, pv := range plan.Create {
		out = append(out, pv.Spec.Downstream.Repo+"/"+pv.Spec.Downstream.Package)
	}
	return out
}

// TestErrorsOfTargets: each error names its field, and the other targets are not affected.
func TestErrorsOfTargets(t *testing.T) {
	const head = "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n"
	const selector = "  - repositorySelector: {matchLabels: {org: hr}}\n    template: "
	for name, tc := range map[string]struct {
		targets  string
		created  []string
		problems map[string]string
	}{
		"MissingKey": {
			selector + `{labelExprs: [{key: a, valueExpr: "repository.annotations['note']"}]}`,
			[]string{"cluster-03/foo"},
			map[string]string{
				"spec.targets[0]: cluster-01/foo": "template.labelExprs[0].valueExpr: no such key: note",
				"spec.targets[0]: cluster-04/foo": "template.labelExprs[0].valueExpr: no such key: note",
			},
		},
		"NoString": {
			selector + `{downstream: {packageExpr: "target.name == 'cluster-01' ? dyn(1) : dyn('x')"}}`,
			[]string{"cluster-03/x", "cluster-04/x"},
			map[string]string{"spec.targets[0]: cluster-01/foo": "template.downstream.packageExpr: must evaluate to a string, evaluates to int"},
		},
		"Null": {
			selector + `{downstream: {packageExpr: "target.annotations[?'note']"}}`,
			[]string{"cluster-03/slow"},
			map[string]string{
				"spec.targets[0]: cluster-01/foo": "template.downstream.packageExpr: must evaluate to a string, evaluates to null_type",
				"spec.targets[0]: cluster-04/foo": "template.downstream.packageExpr: must evaluate to a string, evaluates to null_type",
			},
		},
		"NoRepository": {
			selector + `{downstream: {repoExpr: "target.name == 'cluster-01' ? 'nowhere' : target.name"}}`,
			[]string{"cluster-03/foo", "cluster-04/foo"},
			map[string]string{"spec.targets[0]: cluster-01/foo": `repository "nowhere" could not be loaded: no such Repository in this namespace`},
		},
		"NoRepositoryNoTemplate": {
			"  - repositories: [{name: nowhere}, {name: team-a}]\n",
			[]string{"nowhere/foo", "team-a/foo"},
			map[string]string{"spec.targets[0].repositories[0]: nowhere/foo": `repository "nowhere" could not be loaded: no such Repository in this namespace`},
		},
		"Invalid": {
			selector + `{downstream: {packageExpr: "target.name.upperAscii()"}, labels: {a: b}}`, nil, nil, // see below
		},
		"Reserved": {
			selector + `{packageContext: {dataExprs: [{keyExpr: "target.name == 'cluster-01' ? 'name' : 'x'", value: z}]}}`,
			[]string{"cluster-03/foo", "cluster-04/foo"},
			map[string]string{"spec.targets[0]: cluster-01/foo": `the PackageVariant would be invalid: spec.packageContext.data: Invalid value: {"name":"z"}: must not contain the key "name"`},
		},
		"Expensive": {
			selector + `{labelExprs: [{key: a, valueExpr: "lists.range(100000).map(x, lists.range(100000).map(y, y)).size() > 0 ? 'a' : 'b'"}]}`, nil, nil,
		},
		"Twice": {
			"  - repositories: [{name: cluster-01}, {name: cluster-02}]\n  - repositorySelector: {matchLabels: {region: uswest1}}\n  - repositories: [{name: cluster-02, packageNames: [foo, bar]}]",
			[]string{"cluster-01/foo", "cluster-02/bar", "cluster-04/foo"},
			map[string]string{"spec.targets[0].repositories[1]: cluster-02/foo": "package cluster-02/foo is also wanted by spec.targets[1]: cluster-02/foo … and 1 more; each package can have one target only"},
		},
		"ListTarget": {
			`  - repositories: [{name: team-a, packageNames: [x]}]` + "\n" + `    template: {labelExprs: [{keyExpr: "target.repo", valueExpr: "target['package']"}]}`, []string{"team-a/x"}, nil,
		},
		"NotServed": {
			"  - objectSelector: {apiVersion: example.com/v1, kind: Gone}\n  - repositories: [{name: team-a}]",
			[]string{"team-a/foo"},
			map[string]string{"spec.targets[0].objectSelector": "example.com/v1 Gone: the kind is not served"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			plan := variant.PlanSet(t.Context(), setInput(t, named(parse[configv1alpha2.PackageVariantSet](t, head+tc.targets))))
			if diff := cmp.Diff(tc.created, created(plan)); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if tc.problems == nil { // only that all fail
				if name != "ListTarget" && len(plan.Status.Problems) != 3 {
					t.Errorf("problems %+v", plan.Status.Problems)
				}
				return
			}
			if diff := cmp.Diff(tc.problems, problems(plan)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			reason := configv1alpha1.ReasonUnexpectedError
			if name == "NotServed" {
				reason = configv1alpha1.ReasonNoMatchingTargets
			}
			for _, c := range plan.Status.Conditions {
				if c.Reason != reason || (c.Type == "Stalled") != (c.Status == "True") {
					t.Errorf("condition %+v", c)
				}
			}
		})
	}
}

// TestPackageExpr: dots in the result become dashes, since names of revisions and clusters have
// them. Invalid and too long results are refused.
func TestPackageExpr(t *testing.T) {
	for expr, tc := range map[string]struct {
		created  []string
		problems []string
	}{
		"upstream.name + '-' + target.name":                                             {[]string{"cluster-01/example-repo-foo-v1-cluster-01", "cluster-03/example-repo-foo-v1-cluster-03", "cluster-04/example-repo-foo-v1-cluster-04"}, nil},
		"'apps/' + target.name + '.v1'":                                                 {[]string{"cluster-01/apps/cluster-01-v1", "cluster-03/apps/cluster-03-v1", "cluster-04/apps/cluster-04-v1"}, nil},
		"upstream.name + '-' + upstream.name + '-' + upstream.name + '-' + target.name": {nil, []string{"must be no more than 63", "must be no more than 63", "must be no more than 63"}},
		"'.' + target.name":                                                             {nil, []string{"must start and end", "must start and end", "must start and end"}},
	} {
		set := named(parse[configv1alpha2.PackageVariantSet](t, "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - repositorySelector: {matchLabels: {org: hr}}\n    template: {downstream: {packageExpr: \""+expr+"\"}}"))
		plan := variant.PlanSet(t.Context(), setInput(t, set))
		if diff := cmp.Diff(tc.created, created(plan)); diff != "" {
			t.Errorf("%s: created (-want +got):\n%s", expr, diff)
		}
		for i, p := range plan.Status.Problems {
			if i >= len(tc.problems) || !strings.Contains(p.Message, tc.problems[i]) {
				t.Errorf("%s: problem %s", expr, p.Message)
			}
		}
		if len(plan.Status.Problems) != len(tc.problems) {
			t.Errorf("%s: %d problems", expr, len(plan.Status.Problems))
		}
	}
}

// TestOverlay: a property of all maps and entries: what results has the keys of both, of equal keys
// the last entry, and is nil if empty.
func TestOverlay(t *testing.T) {
	rnd := rand.New(rand.NewSource(7))
	keys := []string{"a", "b", "c", "d"}
	for range 300 {
		set := named(parse[configv1alpha2.PackageVariantSet](t, "spec:\n  upstream: {repo: example-repo, package: foo, revision: v1}\n  targets:\n  - repositories: [{name: team-a}]\n    template: {}"))
		template, want := set.Spec.Targets[0].Template, map[string]string{}
		for range rnd.Intn(3) {
			if template.Labels == nil {
				template.Labels = map[string]string{}
			}
			template.Labels[keys[rnd.Intn(len(keys))]] = fmt.Sprint(rnd.Intn(100))
		}
		maps.Copy(want, template.Labels)
		for range rnd.Intn(4) {
			key, value := keys[rnd.Intn(len(keys))], fmt.Sprint(rnd.Intn(100))
			keyExpr, valueExpr := "'"+key+"'", "'"+value+"'"
			e := configv1alpha2.MapExpr{Key: &key, Value: &value}
			if rnd.Intn(2) == 0 {
				e.Key, e.KeyExpr = nil, &keyExpr
			}
			if rnd.Intn(2) == 0 {
				e.Value, e.ValueExpr = nil, &valueExpr
			}
			template.LabelExprs = append(template.LabelExprs, e)
			want[key] = value
		}
		remove := map[string]bool{}
		template.PackageContext = &configv1alpha2.PackageContextTemplate{}
		for range rnd.Intn(4) {
			key := keys[rnd.Intn(len(keys))]
			remove[key] = true
			if rnd.Intn(2) == 0 {
				template.PackageContext.RemoveKeys = append(template.PackageContext.RemoveKeys, key)
			} else {
				template.PackageContext.RemoveKeyExprs = append(template.PackageContext.RemoveKeyExprs, "'"+key+"'")
			}
		}
		if len(want) == 0 {
			want = nil
		}
		got := variant.PlanSet(t.Context(), setInput(t, set)).Create[0].Spec
		if diff := cmp.Diff(want, got.Labels); diff != "" {
			t.Fatalf("%+v (-want +got):\n%s", template, diff)
		}
		var removed []string
		if got.PackageContext != nil {
			removed = got.PackageContext.RemoveKeys
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(remove)), removed); diff != "" {
			t.Fatalf("removeKeys (-want +got):\n%s", diff)
		}
	}
}

// TestEvaluationIsDeterministic: also that of maps, which Go walks through in another order each
// time.
func TestEvaluationIsDeterministic(t *testing.T) {
	set := named(parse[configv1alpha2.PackageVariantSet](t, `
spec:
  upstream: {repo: example-repo, package: foo, revision: v1}
  targets:
  - repositorySelector: {matchLabels: {org: hr}}
    template: {annotationExprs: [{key: all, valueExpr: "target.labels.map(k, k + target.labels[k]).join(' ')"}]}
`))
	in := setInput(t, set)
	first := variant.PlanSet(t.Context(), in)
	if got := first.Create[0].Spec.Annotations["all"]; !strings.HasPrefix(got, "envprod orghr region") {
		t.Errorf("%q", got)
	}
	for range 20 {
		if diff := cmp.Diff(first, variant.PlanSet(t.Context(), in)); diff != "" {
			t.Fatal(diff)
		}
	}
}
