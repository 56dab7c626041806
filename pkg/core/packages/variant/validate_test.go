package variant_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

const oneOf = "must specify one of `repositories`, `repositorySelector`, or `objectSelector`"

func TestValidateSet(t *testing.T) {
	const good = "upstream: {repo: r, package: p, revision: 1}\n"
	target := func(text string) string { return good + "targets:\n- " + text }
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"Empty":   {"", []string{"spec.upstream is a required field", "must specify at least one item in spec.targets"}},
		"Good":    {target("repositories: [{name: a}]"), nil},
		"Tag":     {"upstream: {repo: r, package: p, tag: stable}\ntargets:\n- repositories: [{name: a}]", nil},
		"Latest":  {"upstream: {repo: r, package: p, revision: latest}\ntargets:\n- repositories: [{name: a}]", nil},
		"Nothing": {"upstream: {repo: r, package: p, revision: 0}\ntargets:\n- repositories: [{name: a}]", []string{"either spec.upstream.revision or spec.upstream.workspaceName must be specified"}},
		"Upstream": {"upstream: {}", []string{
			"spec.upstream.package is a required field", "spec.upstream.repo is a required field",
			"either spec.upstream.revision or spec.upstream.workspaceName must be specified", "must specify at least one item in spec.targets",
		}},
		"Branch": {"upstream: {repo: r, package: p, revision: -1}\ntargets:\n- repositories: [{name: a}]", []string{
			"spec.upstream.revision: Invalid value: -1: the content of a branch changes and cannot be cloned; use the number of a published revision, or latest",
		}},
		"Word": {"upstream: {repo: r, package: p, revision: vx, tag: 'a b'}\ntargets:\n- repositories: [{name: a}]", []string{
			"spec.upstream.tag: Forbidden: may not be specified with spec.upstream.revision or spec.upstream.workspaceName",
			`spec.upstream.revision: Invalid value: "vx": must be the number of a revision, such as 3 or "v3", a semantic version, or latest; a branch cannot be cloned, because its content changes`,
			`spec.upstream.tag: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		}},
		"Targets": {good + "targets:\n- repositories: [{name: ''}]\n- {repositories: [{name: bar}], repositorySelector: {}}\n- repositories: [{name: bar, packageNames: ['', foo]}]\n- repositories: []\n- {}\n- objectSelector: {packageNames: ['']}", []string{
			"spec.targets[0].repositories[0].name cannot be empty",
			"spec.targets[1] " + oneOf,
			"spec.targets[2].repositories[0].packageNames[0] cannot be empty",
			"spec.targets[3].repositories must not be an empty list if specified",
			"spec.targets[4] " + oneOf,
			"spec.targets[5].objectselector.apiVersion cannot be empty", "spec.targets[5].objectselector.kind cannot be empty",
			"spec.targets[5].objectSelector.packageNames[0] cannot be empty",
		}},
		"Selector": {target("{repositorySelector: {matchExpressions: [{key: a, operator: Is}], packageNames: [a]}, packageNames: [b, '']}"), []string{
			"spec.targets[0] may specify only one of `packageNames` and `repositorySelector.packageNames`",
			`spec.targets[0].repositorySelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`,
			"spec.targets[0].packageNames[1] cannot be empty",
		}},
		"Version": {target("objectSelector: {apiVersion: a/b/c, kind: K}"), []string{
			`spec.targets[0].objectSelector.apiVersion: Invalid value: "a/b/c": must be a version, or a group and a version with a slash between them`,
		}},
		"Policies": {target("template: {adoptionPolicy: invalid, deletionPolicy: invalid}"), []string{
			"spec.targets[0] " + oneOf, `spec.targets[0].template.adoptionPolicy can only be "adoptNone" or "adoptExisting"`,
			`spec.targets[0].template.deletionPolicy can only be "orphan" or "delete"`,
		}},
		"Downstream": {target("template: {downstream: {repo: foo, repoExpr: \"'bar'\", package: p, packageExpr: \"'p'\"}}"), []string{
			"spec.targets[0] " + oneOf, "spec.targets[0].template may specify only one of `downstream.repo` and `downstream.repoExpr`",
			"spec.targets[0].template may specify only one of `downstream.package` and `downstream.packageExpr`",
		}},
		"MapExprs": {target("repositories: [{name: a}]\n  template:\n    labelExprs: [{key: foo, keyExpr: \"'bar'\", value: bar}, {key: foo, value: bar, valueExpr: \"'bar'\"}, {value: x}]\n    annotationExprs: [{key: foo, keyExpr: \"'bar'\"}]\n    packageContext: {dataExprs: [{key: foo, value: bar, valueExpr: \"'bar'\"}], data: {name: x}, removeKeys: [package-path]}"), []string{
			"spec.targets[0].template.labelExprs[0] may specify only one of `key` and `keyExpr`",
			"spec.targets[0].template.labelExprs[1] may specify only one of `value` and `valueExpr`",
			"spec.targets[0].template.labelExprs[2] must specify either `key` or `keyExpr`",
			"spec.targets[0].template.annotationExprs[0] may specify only one of `key` and `keyExpr`",
			"spec.targets[0].template.packageContext.dataExprs[0] may specify only one of `value` and `valueExpr`",
			`spec.targets[0].template.packageContext.data: Invalid value: {"name":"x"}: must not contain the key "name"`,
			`spec.targets[0].template.packageContext.removeKeys: Invalid value: ["package-path"]: must not contain the key "package-path"`,
		}},
		"Injectors": {target("repositories: [{name: bar}]\n  template: {injectors: [{name: foo, nameExpr: bar}, {group: foo}]}"), []string{
			"spec.targets[0].template.injectors[0] may specify only one of `name` and `nameExpr`",
			"spec.targets[0].template.injectors[1] must specify either `name` or `nameExpr`",
		}},
		"Pipeline": {target("repositories: [{name: bar}]\n  template: {pipeline: {validators: [{name: foo}, {image: foo, name: bar}], mutators: [{name: foo.bar, image: bar}, {exec: rm}]}}"), []string{
			"spec.targets[0].template.pipeline.validators[0].image must not be empty",
			"spec.targets[0].template.pipeline.mutators[0].name must not contain '.'",
			"spec.targets[0].template.pipeline.mutators[1].exec: Forbidden: not supported; use image",
		}},
	} {
		spec := parse[configv1alpha2.PackageVariantSetSpec](t, tc.spec)
		if diff := cmp.Diff(tc.want, variant.ValidateSet(spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestValidateVariant(t *testing.T) {
	const good = "upstream: {repo: r, package: p, revision: v1}\ndownstream: {repo: d, package: team/p}\n"
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"Empty": {"", []string{"missing required field spec.upstream", "missing required field spec.downstream"}},
		"Fields": {"upstream: {workspaceName: w}\ndownstream: {}", []string{
			"missing required field spec.upstream.repo", "missing required field spec.upstream.package",
			"missing required field spec.downstream.repo", "missing required field spec.downstream.package",
		}},
		"Good":     {good, nil},
		"Revision": {"upstream: {repo: r, package: p}\ndownstream: {repo: d, package: p}", []string{"either spec.upstream.revision or spec.upstream.workspaceName must be specified"}},
		"Moving": {"upstream: {repo: r, package: p, revision: latest, workspaceName: w}\ndownstream: {repo: d, package: p}", []string{
			"spec.upstream.workspaceName: Forbidden: may not be specified with revision latest, which moves",
		}},
		"Policies": {good + "adoptionPolicy: x\ndeletionPolicy: y", []string{
			`spec.adoptionPolicy field can only be "adoptNone" or "adoptExisting"`, `spec.deletionPolicy can only be "orphan" or "delete"`,
		}},
		"Context": {good + "packageContext: {data: {name: x, package-path: a/b, z: z}, removeKeys: [a, name]}", []string{
			`spec.packageContext.data: Invalid value: {"name":"x"}: must not contain the key "name"`,
			`spec.packageContext.data: Invalid value: {"package-path":"a/b"}: must not contain the key "package-path"`,
			`spec.packageContext.removeKeys: Invalid value: ["name"]: must not contain the key "name"`,
		}},
		"Injectors": {good + "injectors: [{name: a}, {name: '', kind: K}]", []string{"spec.injectors[1].name must not be empty"}},
		"Itself":    {"upstream: {repo: r, package: p, revision: 1}\ndownstream: {repo: r, package: p}", []string{"spec.downstream: Invalid value: must not be the same package as spec.upstream"}},
		"Names": {"upstream: {repo: r, package: p, revision: 1}\ndownstream: {repo: a.b, package: Team/x}", []string{
			`spec.downstream.repo: Invalid value: "a.b": must not contain dots`,
			`spec.downstream.package: Invalid value: "Team/x": each part between slashes must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
		}},
		"Metadata": {good + "labels: {kpt.dev/latest-revision: 'true', tag.starling.io/stable: '', a: 'b c'}\nannotations: {approval.nephio.org/policy: never, 'x y': z}", []string{
			`spec.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			"spec.labels: Forbidden: label kpt.dev/latest-revision is set by the server",
			"spec.labels: Forbidden: label tag.starling.io/stable is a tag: set it on the PackageRevision, where the right of the user to approve is checked",
			`spec.annotations: Invalid value: "x y": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			`spec.annotations[approval.nephio.org/policy]: Unsupported value: "never": supported values: initial, always`,
		}},
		"AnnotationsOfTheController": {good + "annotations: {starling.io/policy-of: x, starling.io/released-by: y}", []string{
			"spec.annotations[starling.io/policy-of]: Forbidden: the controller sets it",
			"spec.annotations[starling.io/released-by]: Forbidden: the controller sets it",
		}},
		"BreakingChanges": {good + "annotations: {pkg.crossplane.io/allow-breaking-crds: a.b}", []string{
			"spec.annotations[pkg.crossplane.io/allow-breaking-crds]: Forbidden: set it on the PackageRevision, where the rights of the user are checked",
		}},
		"Pipeline": {good + "pipeline: {mutators: [{image: a.b, name: c.d}, {exec: x}], validators: [{name: x}]}", []string{
			"spec.pipeline.validators[0].image must not be empty", "spec.pipeline.mutators[1].exec: Forbidden: not supported; use image",
		}},
	} {
		pv := &configv1alpha1.PackageVariant{Spec: *parse[configv1alpha1.PackageVariantSpec](t, tc.spec)}
		if diff := cmp.Diff(tc.want, variant.ValidateVariant(pv)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCompile: every error in expressions is returned at once, with its field.
func TestCompile(t *testing.T) {
	spec := parse[configv1alpha2.PackageVariantSetSpec](t, `
upstream: {repo: r, package: p, revision: 1}
targets:
- repositories: [{name: a}]
- repositories: [{name: b}]
  template:
    downstream: {repoExpr: "repository.name", packageExpr: "1 + 1"}
    labelExprs: [{keyExpr: "/", valueExpr: "nobody"}]
    packageContext: {removeKeyExprs: ["'a'", "'a"]}
    injectors: [{name: a}, {nameExpr: "target.name"}, {nameExpr: "target.name +"}]
    pipeline: {mutators: [{image: x, configMapExprs: [{key: a, valueExpr: "upstream"}]}]}
`)
	_, wrong := variant.Compile(spec)
	tokens := "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
	want := []string{
		"spec.targets[1].template.downstream.repoExpr: 1:1: undeclared reference to 'repository'",
		"spec.targets[1].template.downstream.packageExpr: must evaluate to a string, evaluates to int",
		"spec.targets[1].template.labelExprs[0].keyExpr: 1:1: Syntax error: mismatched input '/' " + tokens + "; 1:2: Syntax error: mismatched input '<EOF>' " + tokens,
		"spec.targets[1].template.labelExprs[0].valueExpr: 1:1: undeclared reference to 'nobody'",
		"spec.targets[1].template.packageContext.removeKeyExprs[1]: 1:1: Syntax error: token recognition error at: ''a'; 1:3: Syntax error: mismatched input '<EOF>' " + tokens,
		"spec.targets[1].template.injectors[2].nameExpr: 1:14: Syntax error: mismatched input '<EOF>' " + tokens,
		"spec.targets[1].template.pipeline.mutators[0].configMapExprs[0].valueExpr: must evaluate to a string, evaluates to map(string, dyn)",
	}
	if diff := cmp.Diff(want, wrong); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
