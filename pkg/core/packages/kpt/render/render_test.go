package render_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
)

func kptfile(pipeline string) string {
	return "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  " + strings.ReplaceAll(strings.TrimSpace(pipeline), "\n", "\n  ") + "\n"
}

func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

const odd = `# of the team

apiVersion:   v1
kind: Service # odd, but ours
metadata: { name:   s }
spec:
    ports:
        -   port: 80
---

# the second
apiVersion: v1
kind: ConfigMap
metadata:
    name: c
    labels:
        "a":   'b'
data:
  list: |
    - a
---
apiVersion: v1
kind: Secret
metadata:
  name:   x
`

func TestRender(t *testing.T) {
	labels := "mutators:\n- image: set-labels:v0.2\n  configMap: {tier: db}"
	cases := map[string]struct {
		files kpt.Files
		// want are the changed files; "-" means that the file is deleted.
		want      kpt.Files
		wantError string
		// wantRun are the functions that were run, with their exit codes.
		wantRun []string
	}{
		"SubpackagesFirst": {
			files: kpt.Files{
				"Kptfile": kptfile("mutators:\n- image: set-annotations:v0.1\n  configMap: {by: root}\nvalidators:\n- image: kubeconform:v0.1"), "a.yaml": configMap("a"),
				"sub/Kptfile": kptfile(labels), "sub/b.yaml": configMap("b"), "sub/dir/c.yaml": configMap("c"),
				"sub/deep/Kptfile": kptfile("mutators:\n- image: set-namespace:v0.4\n  configMap: {namespace: n}"), "sub/deep/d.yaml": configMap("d"),
			},
			want: kpt.Files{
				"a.yaml": configMap("a") + "  annotations:\n    by: root\n", "sub/b.yaml": configMap("b") + "  labels:\n    tier: db\n  annotations:\n    by: root\n",
				"sub/dir/c.yaml":  configMap("c") + "  labels:\n    tier: db\n  annotations:\n    by: root\n",
				"sub/deep/d.yaml": configMap("d") + "  namespace: n\n  labels:\n    tier: db\n  annotations:\n    by: root\n",
			},
			wantRun: []string{"set-namespace:v0.4 0", "set-labels:v0.2 0", "set-annotations:v0.1 0", "kubeconform:v0.1 0"},
		},
		"UnchangedBytes": {
			files:   kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  tag: v0.2.0\n  configMap: {x: y}\n  selectors:\n  - name: c"), "odd.yaml": odd, "README.md": "a: [", "values.yaml": "a:   b\n"},
			want:    kpt.Files{"odd.yaml": strings.Replace(odd, "\n# the second\napiVersion: v1\nkind: ConfigMap\nmetadata:\n    name: c\n    labels:\n        \"a\":   'b'\n", "# the second\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels:\n    \"a\": 'b'\n    x: y\n", 1)},
			wantRun: []string{"set-labels:v0.2.0 0"},
		},
		"NothingChanges": {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configMap: {a: b}\n  selectors: [{name: c}]"), "odd.yaml": odd}, wantRun: []string{"set-labels 0"}},
		"SelectorsAndExclude": {
			files: kpt.Files{
				"Kptfile": kptfile("mutators:\n- image: set-labels:v0.2\n  configMap: {x: y}\n  selectors:\n  - kind: ConfigMap\n    apiVersion: v1\n  exclude:\n  - name: b\n  - annotations: {not: me}"),
				"a.yaml":  configMap("a"), "b.yaml": configMap("b"), "c.yaml": configMap("c") + "  annotations: {not: me}\n", "d.yaml": strings.Replace(configMap("d"), "ConfigMap", "Secret", 1),
			},
			want: kpt.Files{"a.yaml": configMap("a") + "  labels:\n    x: y\n"},
		},
		"ConfigPath": { // is not changed by its own function, but by others; those before it count
			files: kpt.Files{
				"Kptfile": kptfile("mutators:\n- image: apply-setters:v0.2\n  configMap: {team: db}\n- image: set-labels:v0.2\n  configPath: conf/labels.yaml"),
				"a.yaml":  configMap("a"), "conf/labels.yaml": configMap("l") + "data:\n  team: x # kpt-set: ${team}\n",
			},
			want: kpt.Files{"a.yaml": configMap("a") + "  labels:\n    team: db\n", "conf/labels.yaml": configMap("l") + "data:\n  team: db # kpt-set: ${team}\n"},
		},
		"GeneratedTwice": {
			files: kpt.Files{
				"sub/Kptfile":  kptfile("mutators:\n- image: upsert-resource:v0.2\n  configPath: svc.yaml"),
				"sub/svc.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n  namespace: n\n",
			},
			wantError: "Service n/s is also in sub/n/service_s.yaml",
		},
		"TargetPath": {
			files: kpt.Files{
				"Kptfile":   kptfile("mutators:\n- image: upsert-resource:v0.2\n  configPath: conf.yaml"),
				"conf.yaml": configMap("x") + "  annotations:\n    config.kubernetes.io/local-config: \"true\"\n    config.kubernetes.io/target-path: sub/x.yaml\n",
			},
			want: kpt.Files{"sub/x.yaml": configMap("x") + "  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"},
		},
		"NotObjects": {
			files: kpt.Files{"Kptfile": kptfile(labels), "values.yaml": "a: b\n---\nc: d\n", "patch.json": "[{}]", "a.yaml": configMap("a")},
			want:  kpt.Files{"a.yaml": configMap("a") + "  labels:\n    tier: db\n"},
		},
		"GeneratedFiles": {
			files: kpt.Files{
				"sub/Kptfile": kptfile("mutators:\n- image: starlark:v0.5\n  configMap:\n    source: |\n      m = lambda n, p: {'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': n, 'namespace': 'n', 'annotations': {'internal.config.kubernetes.io/path': p} if p else {'a': 'b'}}}\n      ctx.resource_list['items'] += [m('s', ''), m('t', 'sub/a.yaml'), m('u', 'sub/x/u.yaml')]"),
				"sub/a.yaml":  configMap("a"),
			},
			want: kpt.Files{
				"sub/n/secret_s.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: n\n  annotations:\n    a: b\n",
				"sub/a.yaml":          configMap("a") + "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: t\n  namespace: n\n", "sub/x/u.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: u\n  namespace: n\n",
			},
		},
		"Deleted": {
			files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: delete-resources:v0.1\n  configMap: {kind: ConfigMap}"), "a.yaml": configMap("a"), "odd.yaml": odd},
			want:  kpt.Files{"a.yaml": "-", "odd.yaml": strings.Split(odd, "---\n")[0] + "---\n" + strings.Split(odd, "---\n")[2]},
		},
		"WideListsAndJSON": {
			files: kpt.Files{"Kptfile": kptfile(labels), "a.yaml": "---\n" + configMap("a") + "l:\n  - x\n", "b.json": `{"kind":"Secret", "apiVersion":"v1","metadata":{"name":"s"}}`},
			want: kpt.Files{
				"a.yaml": "---\n" + configMap("a") + "  labels:\n    tier: db\nl:\n  - x\n",
				"b.json": "{\n  \"kind\": \"Secret\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"name\": \"s\",\n    \"labels\": {\n      \"tier\": \"db\"\n    }\n  }\n}\n",
			},
		},
		"Aliases": {
			files: kpt.Files{"Kptfile": kptfile(labels), "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: &n a\n  namespace: *n\n"},
			want:  kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: a\n  labels:\n    tier: db\n"},
		},
		"Ignored": {
			files: kpt.Files{"Kptfile": kptfile(labels), ".krmignore": "# charts\ntemplates/\n*.tpl.yaml\n!b.tpl.yaml\n", "templates/x.yaml": "a: {{ b }}", "sub/a.tpl.yaml": "{{ a }}", "b.tpl.yaml": configMap("b")},
			want:  kpt.Files{"b.tpl.yaml": configMap("b") + "  labels:\n    tier: db\n"},
		},
		"ValidatorsChangeNothing": {files: kpt.Files{"Kptfile": kptfile(strings.Replace(labels, "mutators", "validators", 1)), "a.yaml": configMap("a")}, wantRun: []string{"set-labels:v0.2 0"}},
		"Fails": {
			files:     kpt.Files{"Kptfile": kptfile(labels + "\nvalidators:\n- image: starlark:v0.5\n  name: check\n  configMap:\n    source: fail('bad')"), "a.yaml": configMap("a")},
			wantError: "pipeline.validators[0] (check): starlark:v0.5: starlark: fail: bad (line 1)", wantRun: []string{"set-labels:v0.2 0", "starlark:v0.5 1"},
		},
		"FailsByResult": {
			files:     kpt.Files{"sub/Kptfile": kptfile("validators:\n- image: kubeconform:v0.1"), "sub/a.yaml": configMap("a") + "data: {a: 1}\n"},
			wantError: `package "sub": pipeline.validators[0]: kubeconform:v0.1: sub/a.yaml: ConfigMap a: data.a: Invalid value: must be of type string, is of type integer`, wantRun: []string{"kubeconform:v0.1 1"},
		},
		"UnknownImage":  {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: example.com/nope:v1")}, wantError: `image "example.com/nope:v1" is not a built-in function`, wantRun: []string{"example.com/nope:v1 1"}},
		"Exec":          {files: kpt.Files{"Kptfile": kptfile("mutators:\n- exec: rm")}, wantError: "pipeline.mutators[0]: exec is not supported"},
		"NoImage":       {files: kpt.Files{"Kptfile": kptfile("mutators:\n- name: x")}, wantError: "pipeline.mutators[0] (x): image is required"},
		"Constraint":    {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  tag: ~0.2\n  configMap: {a: b}")}, wantRun: []string{"set-labels:v0.2 0"}},
		"NoVersion":     {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  tag: '>=v0.3'")}, wantError: `pipeline.mutators[0]: image "set-labels" has no version that fits tag ">=v0.3"; built in are v0.1, v0.2`},
		"UnknownField":  {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configmap: {}")}, wantError: `Kptfile: pipeline: field "configmap" is not supported`},
		"TwoConfigs":    {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: x\n  configMap: {a: b}")}, wantError: "are mutually exclusive"},
		"ConfigOutside": {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: ../x")}, wantError: "must be a file in the package"},
		"ConfigBelow":   {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: sub/x.yaml"), "sub/Kptfile": kptfile(""), "sub/x.yaml": configMap("a")}, wantError: `configPath "sub/x.yaml" is in the subpackage "sub"`},
		"ParentPath":    {files: kpt.Files{"Kptfile": kptfile(""), "sub/Kptfile": kptfile("mutators:\n- image: starlark\n  configMap:\n    source: |\n      ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'x', 'annotations': {'internal.config.kubernetes.io/path': '../x.yaml'}}})")}, wantError: "outside of the package sub"},
		"SiblingPath":   {files: kpt.Files{"Kptfile": kptfile(""), "b/Kptfile": kptfile(""), "a/Kptfile": kptfile("mutators:\n- image: upsert-resource:v0.2\n  configPath: x.yaml"), "a/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  annotations:\n    config.kubernetes.io/target-path: ../b/x.yaml\n"}, wantError: "outside of the package a"},
		"ConfigMissing": {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: x.yaml")}, wantError: `configPath "x.yaml" is not in the package`},
		"ConfigTwice":   {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: x.yaml"), "x.yaml": configMap("a") + "---\n" + configMap("b")}, wantError: "must have one object, has 2"},
		"Duplicate":     {files: kpt.Files{"a.yaml": configMap("a"), "b.yaml": configMap("a")}, wantError: "b.yaml: ConfigMap a is also in a.yaml"},
		"BadYAML":       {files: kpt.Files{"a.yaml": "a: ["}, wantError: "a.yaml: "},
		"Mixed":         {files: kpt.Files{"a.yaml": configMap("a") + "---\n- b\n"}, wantError: "a.yaml: has documents that are objects, and others that are not"},
		"HalfObject":    {files: kpt.Files{"a.yaml": "kind: X"}, wantError: "it has only one of apiVersion and kind"},
		"ClimbsOut": {
			files:     kpt.Files{"Kptfile": kptfile("mutators:\n- image: starlark\n  configMap:\n    source: |\n      ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'x', 'annotations': {'internal.config.kubernetes.io/path': '../x.yaml'}}})")},
			wantError: "must be relative, clean, and below the package",
		},
		"KptfileDeleted": {files: kpt.Files{"Kptfile": kptfile("mutators:\n- image: starlark\n  configMap:\n    source: ctx.resource_list['items'] = []")}, wantError: "the function deleted Kptfile"},
	}
	cache := &render.Cache{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.files.Digest()
			got, err := render.Render(tc.files, functions.Run)
			if tc.wantError == "" && err != nil {
				t.Fatal(err)
			}
			want := kpt.Files{}
			maps.Copy(want, tc.files)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("error %v, want %q", err, tc.wantError)
				}
				if got.Results.ExitCode != 1 {
					t.Errorf("exit code %d, want 1", got.Results.ExitCode)
				}
			} else {
				for path, content := range tc.want {
					if want[path] = content; content == "-" {
						delete(want, path)
					}
				}
			}
			if diff := cmp.Diff(want, got.Files); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if tc.files.Digest() != before {
				t.Error("the input was changed")
			}
			for range 2 { // the cache of this and other packages does not change the result
				again, againErr := cache.Render(tc.files, functions.Run)
				if diff := cmp.Diff(got, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(againErr) {
					t.Errorf("with a cache: %v (-want +got):\n%s", againErr, diff)
				}
			}
			var run []string
			for _, item := range got.Results.Items {
				run = append(run, fmt.Sprint(item.Image, " ", item.ExitCode))
			}
			if diff := cmp.Diff(tc.wantRun, run); tc.wantRun != nil && diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
			if name == "UnknownImage" && got.Results.Items[0].Stderr != "" { // the error says it, once
				t.Errorf("what has not run printed %q", got.Results.Items[0].Stderr)
			}
		})
	}
}

// TestProtectedFields: functions change neither the pipeline and the upstream in a Kptfile, nor
// what was injected. All else they change, also in the same objects, and a second render changes
// nothing.
func TestProtectedFields(t *testing.T) {
	replace := "mutators:\n- image: search-replace:v0.2\n  configMap:\n    by-value: old\n    put-value: new\n- image: starlark:v0.5\n  configMap:\n    source: |\n" +
		"      for o in ctx.resource_list['items']:\n        o.pop('pipeline', None)\n        o.pop('upstream', None)"
	const upstream = "upstream:\n  type: git # old\n  git: {repo: old, ref: old}\nupstreamLock:\n  git:\n    commit: old\n"
	point := func(kind, field, value, injected string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata:\n  name: " + strings.ToLower(kind) + "\n  labels:\n    a: " + value + "\n  annotations:\n    kpt.dev/config-injection: optional\n" +
			injected + field + ":\n  a: old # as it is\n"
	}
	const injected = "    kpt.dev/injected-resource: x\n"
	files := kpt.Files{
		"Kptfile": kptfile(replace) + upstream + "info:\n  description: old\n", "sub/Kptfile": kptfile("{}") + upstream,
		"a.yaml": point("ConfigMap", "data", "old", injected) + "---\n" + point("Site", "spec", "old", injected), "b.yaml": point("Secret", "spec", "old", ""),
	}
	want := kpt.Files{
		"Kptfile": kptfile(replace) + upstream + "info:\n  description: new\n", "sub/Kptfile": kptfile("{}") + upstream,
		"a.yaml": point("ConfigMap", "data", "new", injected) + "---\n" + point("Site", "spec", "new", injected), "b.yaml": strings.Replace(point("Secret", "spec", "new", ""), "a: old", "a: new", 1),
	}
	for range 2 {
		got, err := render.Render(files, functions.Run)
		if err != nil {
			t.Fatal(err)
		}
		objects := func(files kpt.Files) map[string]any { // fields may be in another order
			out := map[string]any{}
			for name, text := range files {
				documents, err := kpt.Documents(text)
				if err != nil {
					t.Fatal(err)
				}
				for i, d := range documents {
					json, err := d.MarshalJSON()
					if err != nil {
						t.Fatal(err)
					}
					out[fmt.Sprint(name, i)] = string(json)
				}
			}
			return out
		}
		if diff := cmp.Diff(objects(want), objects(got.Files)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		var warnings []string
		for _, item := range got.Results.Items[0].Results {
			if item.Severity == functions.Warning {
				warnings = append(warnings, item.File.Path+": "+item.Message)
			}
		}
		const dropped = "functions must not change %s; the change was dropped"
		wantWarnings := []string{
			"Kptfile: " + fmt.Sprintf(dropped, "pipeline"), "Kptfile: " + fmt.Sprintf(dropped, "upstream"), "Kptfile: " + fmt.Sprintf(dropped, "upstreamLock"),
			"a.yaml: " + fmt.Sprintf(dropped, "data"), "a.yaml: " + fmt.Sprintf(dropped, "spec"),
			"sub/Kptfile: " + fmt.Sprintf(dropped, "upstream"), "sub/Kptfile: " + fmt.Sprintf(dropped, "upstreamLock"),
		}
		if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
		files = got.Files
	}
}

// Functions in another process return other nodes for the same positions.
func TestRenderWithParsedObjects(t *testing.T) {
	evaluate := func(image string, in functions.Input) (functions.Output, error) {
		for i := range in.Items {
			text, err := in.Items[i].Node.String()
			if err != nil {
				return functions.Output{}, err
			}
			in.Items[i].Node = yaml.MustParse(text)
		}
		return functions.Run(image, in)
	}
	files := kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configMap: {x: y}\n  selectors: [{name: c}]\n- image: set-labels\n  configMap: {a: b}\n  selectors: [{name: c}]"), "odd.yaml": odd}
	want, err := render.Render(files, functions.Run)
	if err != nil {
		t.Fatal(err)
	}
	got, err := render.Render(files, evaluate)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	failed := errors.New("worker was killed")
	if _, err := render.Render(files, func(string, functions.Input) (functions.Output, error) { return functions.Output{}, failed }); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
}

// Changed files retain line endings; changed JSON retains the order of fields and the notation of
// values.
func TestStyleIsRetained(t *testing.T) {
	labels := kptfile("mutators:\n- image: set-labels:v0.2\n  configMap: {x: y}\n  selectors: [{name: a}]")
	crlf := func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }
	const json = `{"kind": "ConfigMap", "apiVersion": "v1",
  "metadata": {"name": "a"}, "z": [], "data": {"b": "1", "a": "<&>", "u": "\u00e9\n"}, "big": 12345678901234567890, "f": 1.0, "e": 1e3, "n": null, "l": [1, {"x": true}]}
`
	for name, tc := range map[string]struct{ path, before, after string }{
		"CRLF": {
			"a.yaml", crlf("# ours\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # here\ndata:\n  text: |\n    one\n    two\n---\n" + configMap("b")),
			crlf("# ours\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # here\n  labels:\n    x: y\ndata:\n  text: |\n    one\n    two\n---\n" + configMap("b")),
		},
		"JSON": {"a.json", json, `{
  "kind": "ConfigMap",
  "apiVersion": "v1",
  "metadata": {
    "name": "a",
    "labels": {
      "x": "y"
    }
  },
  "z": [],
  "data": {
    "b": "1",
    "a": "<&>",
    "u": "é\n"
  },
  "big": 12345678901234567890,
  "f": 1.0,
  "e": 1e3,
  "n": null,
  "l": [
    1,
    {
      "x": true
    }
  ]
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render.Render(kpt.Files{"Kptfile": labels, tc.path: tc.before}, functions.Run)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.after, got.Files[tc.path]); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
			again, err := render.Render(got.Files, functions.Run)
			if err != nil || again.Files[tc.path] != tc.after {
				t.Errorf("a second time %q, %v", again.Files[tc.path], err)
			}
		})
	}
}

// TestDuplicateField: an object with a duplicate field is refused, because parsers disagree on its
// value.
func TestDuplicateField(t *testing.T) {
	many := ""
	for i := range 20 {
		many += fmt.Sprintf("  k%d: v\n", i)
	}
	for _, data := range []string{"  a: b\n  c: d\n  a: e\n", many + "  k3: w\n"} {
		files := kpt.Files{"Kptfile": kptfile(""), "a.yaml": configMap("a") + "data:\n" + data}
		_, err := render.Render(files, functions.Run)
		if _, ok := errors.AsType[*render.PackageError](err); !ok || !strings.Contains(err.Error(), "is duplicated; it is also in line") {
			t.Errorf("error %v", err)
		}
	}
	files := kpt.Files{"Kptfile": kptfile(""), "a.yaml": configMap("a") + "data:\n" + many, "values.yaml": "a: 1\na: 2\n"}
	if _, err := render.Render(files, functions.Run); err != nil {
		t.Errorf("a file without objects is checked: %v", err)
	}
}

// In any notation, unselected objects stay unchanged, and the result can be parsed.
func FuzzUnchangedBytes(f *testing.F) {
	f.Add(odd)
	f.Add("---\n" + configMap("a") + "--- # x\n" + configMap("b"))
	f.Add("%YAML 1.1\n---\n" + configMap("a") + "...\n")
	f.Add(configMap("a") + "--- {apiVersion: v1, kind: X, metadata: {name: c}}\n")
	f.Fuzz(func(t *testing.T, content string) {
		files := kpt.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configMap: {x: y}\n  selectors: [{name: c}]"), "a.yaml": content}
		if len(files.Check()) > 0 {
			return
		}
		first, err := render.Render(files, functions.Run)
		if err != nil {
			return
		}
		cache := &render.Cache{}
		for range 2 {
			if cached, err := cache.Render(files, functions.Run); err != nil || !maps.Equal(first.Files, cached.Files) {
				t.Fatalf("with a cache: %v (-want +got):\n%s", err, cmp.Diff(first.Files, cached.Files))
			}
		}
		again, err := render.Render(first.Files, functions.Run)
		if err != nil {
			t.Fatalf("the result cannot be rendered: %v\n%q", err, first.Files["a.yaml"])
		}
		if diff := cmp.Diff(first.Files, again.Files); diff != "" {
			t.Errorf("a second time (-want +got):\n%s", diff)
		}
	})
}

// TestOrderOfPackages: subpackages are rendered first or, with kpt's annotation on the root, level
// by level. Each function receives the objects below its package in both orders.
func TestOrderOfPackages(t *testing.T) {
	files := func(annotation string) kpt.Files {
		label := func(by string) string {
			return kptfile("mutators:\n- image: set-annotations:v0.1\n  configMap:\n    last: " + by)
		}
		all := kpt.Files{"Kptfile": label("root"), "a.yaml": configMap("a")}
		for _, dir := range []string{"b", "b-c", "b/d", "b/no/e", "z/x"} {
			all[dir+"/Kptfile"] = label(strings.ReplaceAll(dir, "/", "."))
			all[dir+"/a.yaml"] = configMap(strings.ReplaceAll(dir, "/", "."))
		}
		all["Kptfile"] = strings.Replace(all["Kptfile"], "metadata:\n", "metadata:\n  annotations: {kpt.dev/bfs-rendering: "+annotation+"}\n", 1)
		all["b/Kptfile"] = strings.Replace(all["b/Kptfile"], "metadata:\n", "metadata:\n  annotations: {kpt.dev/bfs-rendering: 'true'}\n", 1)
		return all
	}
	for annotation, want := range map[string]struct{ order, last []string }{
		"'false'": {[]string{"b.d", "b.no.e", "b", "b-c", "z.x", "root"}, []string{"root", "root", "root", "root", "root", "root"}},
		"'True'":  {[]string{"b.d", "b.no.e", "b", "b-c", "z.x", "root"}, []string{"root", "root", "root", "root", "root", "root"}},
		"'true'":  {[]string{"root", "b", "b-c", "z.x", "b.d", "b.no.e"}, []string{"root", "b", "b-c", "b.d", "b.no.e", "z.x"}},
	} {
		var order []string
		got, err := render.Render(files(annotation), func(image string, in functions.Input) (functions.Output, error) {
			order = append(order, in.Config.GetDataMap()["last"])
			return functions.Run(image, in)
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.order, order); diff != "" {
			t.Errorf("%s: order (-want +got):\n%s", annotation, diff)
		}
		var last []string
		for _, dir := range []string{"", "b/", "b-c/", "b/d/", "b/no/e/", "z/x/"} {
			_, by, _ := strings.Cut(got.Files[dir+"a.yaml"], "last: ")
			last = append(last, strings.Trim(by, "'\"\n"))
		}
		if diff := cmp.Diff(want.last, last); diff != "" {
			t.Errorf("%s: last (-want +got):\n%s", annotation, diff)
		}
	}
}
