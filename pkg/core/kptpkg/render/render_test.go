package render_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
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
		files kptpkg.Files
		// want are the files that are other than before; "-" says that one is gone.
		want      kptpkg.Files
		wantError string
		// wantRun are the functions that were run, with their exit codes.
		wantRun []string
	}{
		"SubpackagesFirst": {
			files: kptpkg.Files{
				"Kptfile": kptfile("mutators:\n- image: set-annotations:v0.1\n  configMap: {by: root}\nvalidators:\n- image: kubeconform:v0.1"), "a.yaml": configMap("a"),
				"sub/Kptfile": kptfile(labels), "sub/b.yaml": configMap("b"), "sub/dir/c.yaml": configMap("c"),
				"sub/deep/Kptfile": kptfile("mutators:\n- image: set-namespace:v0.4\n  configMap: {namespace: n}"), "sub/deep/d.yaml": configMap("d"),
			},
			want: kptpkg.Files{
				"a.yaml": configMap("a") + "  annotations:\n    by: root\n", "sub/b.yaml": configMap("b") + "  labels:\n    tier: db\n  annotations:\n    by: root\n",
				"sub/dir/c.yaml":  configMap("c") + "  labels:\n    tier: db\n  annotations:\n    by: root\n",
				"sub/deep/d.yaml": configMap("d") + "  namespace: n\n  labels:\n    tier: db\n  annotations:\n    by: root\n",
			},
			wantRun: []string{"set-namespace:v0.4 0", "set-labels:v0.2 0", "set-annotations:v0.1 0", "kubeconform:v0.1 0"},
		},
		"BytesStay": {
			files:   kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  tag: v0.2.0\n  configMap: {x: y}\n  selectors:\n  - name: c"), "odd.yaml": odd, "README.md": "a: [", "values.yaml": "a:   b\n"},
			want:    kptpkg.Files{"odd.yaml": strings.Replace(odd, "\n# the second\napiVersion: v1\nkind: ConfigMap\nmetadata:\n    name: c\n    labels:\n        \"a\":   'b'\n", "# the second\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  labels:\n    \"a\": 'b'\n    x: y\n", 1)},
			wantRun: []string{"set-labels:v0.2.0 0"},
		},
		"NothingChanges": {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configMap: {a: b}\n  selectors: [{name: c}]"), "odd.yaml": odd}, wantRun: []string{"set-labels 0"}},
		"SelectorsAndExclude": {
			files: kptpkg.Files{
				"Kptfile": kptfile("mutators:\n- image: set-labels:v0.2\n  configMap: {x: y}\n  selectors:\n  - kind: ConfigMap\n    apiVersion: v1\n  exclude:\n  - name: b\n  - annotations: {not: me}"),
				"a.yaml":  configMap("a"), "b.yaml": configMap("b"), "c.yaml": configMap("c") + "  annotations: {not: me}\n", "d.yaml": strings.Replace(configMap("d"), "ConfigMap", "Secret", 1),
			},
			want: kptpkg.Files{"a.yaml": configMap("a") + "  labels:\n    x: y\n"},
		},
		"ConfigPath": { // is not changed by its own function, but by others; those before it count
			files: kptpkg.Files{
				"Kptfile": kptfile("mutators:\n- image: apply-setters:v0.2\n  configMap: {team: db}\n- image: set-labels:v0.2\n  configPath: conf/labels.yaml"),
				"a.yaml":  configMap("a"), "conf/labels.yaml": configMap("l") + "data:\n  team: x # kpt-set: ${team}\n",
			},
			want: kptpkg.Files{"a.yaml": configMap("a") + "  labels:\n    team: db\n", "conf/labels.yaml": configMap("l") + "data:\n  team: db # kpt-set: ${team}\n"},
		},
		"GeneratedTwice": {
			files: kptpkg.Files{
				"sub/Kptfile":  kptfile("mutators:\n- image: upsert-resource:v0.2\n  configPath: svc.yaml"),
				"sub/svc.yaml": "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\n  namespace: n\n",
			},
			wantError: "Service n/s is in sub/n/service_s.yaml, too",
		},
		"GeneratedFiles": {
			files: kptpkg.Files{
				"sub/Kptfile": kptfile("mutators:\n- image: starlark:v0.5\n  configMap:\n    source: |\n      m = lambda n, p: {'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': n, 'namespace': 'n', 'annotations': {'internal.config.kubernetes.io/path': p} if p else {'a': 'b'}}}\n      ctx.resource_list['items'] += [m('s', ''), m('t', 'sub/a.yaml'), m('u', 'sub/x/u.yaml')]"),
				"sub/a.yaml":  configMap("a"),
			},
			want: kptpkg.Files{
				"sub/n/secret_s.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: n\n  annotations:\n    a: b\n",
				"sub/a.yaml":          configMap("a") + "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: t\n  namespace: n\n", "sub/x/u.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: u\n  namespace: n\n",
			},
		},
		"Deleted": {
			files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: delete-resources:v0.1\n  configMap: {kind: ConfigMap}"), "a.yaml": configMap("a"), "odd.yaml": odd},
			want:  kptpkg.Files{"a.yaml": "-", "odd.yaml": strings.Split(odd, "---\n")[0] + "---\n" + strings.Split(odd, "---\n")[2]},
		},
		"WideListsAndJSON": {
			files: kptpkg.Files{"Kptfile": kptfile(labels), "a.yaml": "---\n" + configMap("a") + "l:\n  - x\n", "b.json": `{"kind":"Secret", "apiVersion":"v1","metadata":{"name":"s"}}`},
			want: kptpkg.Files{
				"a.yaml": "---\n" + configMap("a") + "  labels:\n    tier: db\nl:\n  - x\n",
				"b.json": "{\n  \"kind\": \"Secret\",\n  \"apiVersion\": \"v1\",\n  \"metadata\": {\n    \"name\": \"s\",\n    \"labels\": {\n      \"tier\": \"db\"\n    }\n  }\n}\n",
			},
		},
		"Aliases": {
			files: kptpkg.Files{"Kptfile": kptfile(labels), "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: &n a\n  namespace: *n\n"},
			want:  kptpkg.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: a\n  labels:\n    tier: db\n"},
		},
		"Ignored": {
			files: kptpkg.Files{"Kptfile": kptfile(labels), ".krmignore": "# charts\ntemplates/\n*.tpl.yaml\n!b.tpl.yaml\n", "templates/x.yaml": "a: {{ b }}", "sub/a.tpl.yaml": "{{ a }}", "b.tpl.yaml": configMap("b")},
			want:  kptpkg.Files{"b.tpl.yaml": configMap("b") + "  labels:\n    tier: db\n"},
		},
		"ValidatorsChangeNothing": {files: kptpkg.Files{"Kptfile": kptfile(strings.Replace(labels, "mutators", "validators", 1)), "a.yaml": configMap("a")}, wantRun: []string{"set-labels:v0.2 0"}},
		"Fails": {
			files:     kptpkg.Files{"Kptfile": kptfile(labels + "\nvalidators:\n- image: starlark:v0.5\n  name: check\n  configMap:\n    source: fail('bad')"), "a.yaml": configMap("a")},
			wantError: "pipeline.validators[0] (check): starlark:v0.5: starlark: fail: bad (line 1)", wantRun: []string{"set-labels:v0.2 0", "starlark:v0.5 1"},
		},
		"FailsByResult": {
			files:     kptpkg.Files{"sub/Kptfile": kptfile("validators:\n- image: kubeconform:v0.1"), "sub/a.yaml": configMap("a") + "data: {a: 1}\n"},
			wantError: `package "sub": pipeline.validators[0]: kubeconform:v0.1: sub/a.yaml: ConfigMap a: data.a is of type integer, want string`, wantRun: []string{"kubeconform:v0.1 1"},
		},
		"UnknownImage":  {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: example.com/nope:v1")}, wantError: `image "example.com/nope:v1" is no function that is known; known are`, wantRun: []string{"example.com/nope:v1 1"}},
		"Exec":          {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- exec: rm")}, wantError: "pipeline.mutators[0]: exec is not supported"},
		"NoImage":       {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- name: x")}, wantError: "pipeline.mutators[0] (x): image is required"},
		"Constraint":    {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  tag: ~0.2")}, wantError: "constraints are not supported"},
		"UnknownField":  {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configmap: {}")}, wantError: "Kptfile: pipeline: field configmap is not supported"},
		"TwoConfigs":    {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: x\n  configMap: {a: b}")}, wantError: "exclude each other"},
		"ConfigOutside": {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: ../x")}, wantError: "must be below the package"},
		"ConfigMissing": {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: x.yaml")}, wantError: `configPath "x.yaml" is not in the package`},
		"ConfigTwice":   {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configPath: x.yaml"), "x.yaml": configMap("a") + "---\n" + configMap("b")}, wantError: "has 2 objects, want one"},
		"Duplicate":     {files: kptpkg.Files{"a.yaml": configMap("a"), "b.yaml": configMap("a")}, wantError: "b.yaml: ConfigMap a is in a.yaml, too"},
		"BadYAML":       {files: kptpkg.Files{"a.yaml": "a: ["}, wantError: "a.yaml: "},
		"HalfObject":    {files: kptpkg.Files{"a.yaml": "kind: X"}, wantError: "it has only one of apiVersion and kind"},
		"ClimbsOut": {
			files:     kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: starlark\n  configMap:\n    source: |\n      ctx.resource_list['items'].append({'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': 'x', 'annotations': {'internal.config.kubernetes.io/path': '../x.yaml'}}})")},
			wantError: "must be relative, clean, and below the package",
		},
		"KptfileDeleted": {files: kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: starlark\n  configMap:\n    source: ctx.resource_list['items'] = []")}, wantError: "Kptfile was deleted"},
	}
	memory := &render.Memory{}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.files.Digest()
			got, err := render.Render(tc.files, functions.Run)
			if tc.wantError == "" && err != nil {
				t.Fatal(err)
			}
			want := kptpkg.Files{}
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
				t.Error("the files that were given have changed")
			}
			for range 2 { // what is remembered of this and of other packages changes nothing
				again, againErr := memory.Render(tc.files, functions.Run)
				if diff := cmp.Diff(got, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(againErr) {
					t.Errorf("from memory: %v (-want +got):\n%s", againErr, diff)
				}
			}
			var run []string
			for _, item := range got.Results.Items {
				run = append(run, fmt.Sprint(item.Image, " ", item.ExitCode))
			}
			if diff := cmp.Diff(tc.wantRun, run); tc.wantRun != nil && diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
		})
	}
}

// What evaluates may hand back other nodes for the same places, as one in another process does.
func TestRenderThroughText(t *testing.T) {
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
	files := kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configMap: {x: y}\n  selectors: [{name: c}]\n- image: set-labels\n  configMap: {a: b}\n  selectors: [{name: c}]"), "odd.yaml": odd}
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

// What a function changes keeps the ends of lines, and JSON the order of its fields and what is written there.
func TestStyleStays(t *testing.T) {
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
			got, err := render.Render(kptpkg.Files{"Kptfile": labels, tc.path: tc.before}, functions.Run)
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

// A field that stands in an object twice means something else to each reader.
func TestFieldTwice(t *testing.T) {
	many := ""
	for i := range 20 {
		many += fmt.Sprintf("  k%d: v\n", i)
	}
	for _, data := range []string{"  a: b\n  c: d\n  a: e\n", many + "  k3: w\n"} {
		files := kptpkg.Files{"Kptfile": kptfile(""), "a.yaml": configMap("a") + "data:\n" + data}
		_, err := render.Render(files, functions.Run)
		if _, ok := errors.AsType[*render.PackageError](err); !ok || !strings.Contains(err.Error(), "stands there twice; it is in line") {
			t.Errorf("error %v", err)
		}
	}
	files := kptpkg.Files{"Kptfile": kptfile(""), "a.yaml": configMap("a") + "data:\n" + many, "values.yaml": "a: 1\na: 2\n"}
	if _, err := render.Render(files, functions.Run); err != nil {
		t.Errorf("what is no object is not looked into: %v", err)
	}
}

// However a file is written, what is not selected stays as it is, and what is written can be read.
func FuzzBytesStay(f *testing.F) {
	f.Add(odd)
	f.Add("---\n" + configMap("a") + "--- # x\n" + configMap("b"))
	f.Add("%YAML 1.1\n---\n" + configMap("a") + "...\n")
	f.Add(configMap("a") + "--- {apiVersion: v1, kind: X, metadata: {name: c}}\n")
	f.Fuzz(func(t *testing.T, content string) {
		files := kptpkg.Files{"Kptfile": kptfile("mutators:\n- image: set-labels\n  configMap: {x: y}\n  selectors: [{name: c}]"), "a.yaml": content}
		if len(files.Check()) > 0 {
			return
		}
		first, err := render.Render(files, functions.Run)
		if err != nil {
			return
		}
		memory := &render.Memory{}
		for range 2 {
			if remembered, err := memory.Render(files, functions.Run); err != nil || !maps.Equal(first.Files, remembered.Files) {
				t.Fatalf("from memory: %v (-want +got):\n%s", err, cmp.Diff(first.Files, remembered.Files))
			}
		}
		again, err := render.Render(first.Files, functions.Run)
		if err != nil {
			t.Fatalf("what was written cannot be rendered: %v\n%q", err, first.Files["a.yaml"])
		}
		if diff := cmp.Diff(first.Files, again.Files); diff != "" {
			t.Errorf("a second time (-want +got):\n%s", diff)
		}
	})
}
