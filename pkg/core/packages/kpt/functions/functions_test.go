package functions_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// items parses documents as the objects of a file.
func items(t testing.TB, path, text string) []functions.Item {
	t.Helper()
	documents, err := kpt.Documents(text)
	if err != nil {
		t.Fatal(err)
	}
	var out []functions.Item
	for i, document := range documents {
		out = append(out, functions.Item{Path: path, Index: i, Node: document})
	}
	return out
}

func config(text string) *yaml.RNode {
	if text == "" {
		return nil
	}
	return yaml.MustParse(text)
}

// data is a ConfigMap with lines of data.
func data(lines ...string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\ndata:\n  " + strings.Join(lines, "\n  ") + "\n"
}

func write(t testing.TB, out []functions.Item) string {
	t.Helper()
	var nodes []*yaml.RNode
	for _, item := range out {
		nodes = append(nodes, item.Node)
	}
	text, err := kpt.Text(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// example is a run of a function, from its documentation where possible.
type example struct {
	image, config, in string
	// want are the objects after it; "" if they are as before.
	want string
	// wantError is a part of the error; wantResults are results as "severity field: message", where
	// they matter.
	wantError   string
	wantResults []string
	// once is true if a second run changes the objects again.
	once bool
}

func check(t *testing.T, examples map[string]example) {
	t.Helper()
	for name, tc := range examples {
		t.Run(name, func(t *testing.T) {
			out, err := functions.Run(tc.image, functions.Input{Items: items(t, "resources.yaml", tc.in), Config: config(tc.config)})
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("error %v, want %q", err, tc.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tc.want
			if want == "" {
				want = write(t, items(t, "", tc.in))
			}
			if diff := cmp.Diff(want, write(t, out.Items)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if tc.wantResults != nil {
				var got []string
				for _, r := range out.Results {
					field := ""
					if r.Field != nil {
						field = " " + r.Field.Path
					}
					got = append(got, r.Severity+field+": "+r.Message)
				}
				if diff := cmp.Diff(tc.wantResults, got); diff != "" {
					t.Errorf("results (-want +got):\n%s", diff)
				}
			}
			if out.Failed() || tc.once {
				return
			}
			again, err := functions.Run(tc.image, functions.Input{Items: items(t, "resources.yaml", want), Config: config(tc.config)})
			if err != nil {
				t.Fatalf("a second time: %v", err)
			}
			if diff := cmp.Diff(want, write(t, again.Items)); diff != "" {
				t.Errorf("a second time (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	for image, want := range map[string]string{
		"set-namespace:v0.4": "set-namespace", "set-namespace:v0.4.1": "set-namespace", "set-namespace:v0.1.4": "set-namespace", "set-labels": "set-labels",
		"registry.example.com/a/b/set-labels:v0.2.0": "set-labels", "localhost:5000/set-labels:v0.1": "set-labels",
		"set-labels:latest": "set-labels", "starlark:unstable": "starlark", "set-labels:v0.2@sha256:abc": "set-labels",
		"set-namespace:v0.3": "set-namespace", "set-namespace:v0.3.4": "set-namespace",
	} {
		if got, err := functions.Resolve(image); err != nil || got != want {
			t.Errorf("%s: %q, %v", image, got, err)
		}
	}
	for image, want := range map[string]string{
		"": "is not a built-in function", "nginx:1.2": "is not a built-in function", "set-labels/": "is not a built-in function",
		"set-namespace:v0.3.2": `has the unsupported tag "v0.3.2"; built in are v0.1, v0.2, v0.3 (from patch 3), v0.4`, "set-namespace:v0.44": "has the unsupported tag",
		"set-namespace:v0.1x": "has the unsupported tag", "set-namespace:v0.3.99999999999999999999": "has the unsupported tag",
		"set-namespace:": `has the unsupported tag ""`, "set-labels@sha256:abc": "has digest sha256:abc but no tag",
	} {
		_, err := functions.Resolve(image)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%s: %v, want %q", image, err, want)
		}
	}
}

// TestChoose: the highest built-in version that fits is chosen.
func TestChoose(t *testing.T) {
	for _, tc := range []struct{ image, constraint, want string }{
		{"set-namespace", ">=v0.4.1", "set-namespace:v0.4"},
		{"gcr.io/kpt-fn/set-namespace", ">=v0.1.0", "gcr.io/kpt-fn/set-namespace:v0.4"},
		{"set-namespace:v0.1", "<v0.4.0", "set-namespace:v0.3"},
		{"set-namespace", "<v0.3.3", "set-namespace:v0.2"},
		{"set-namespace", "~0.3", "set-namespace:v0.3"},
		{"set-namespace", "~0.1 || ~0.2", "set-namespace:v0.2"},
		{"localhost:5000/set-labels@sha256:abc", "v0.1.*", "localhost:5000/set-labels:v0.1"},
		{"starlark", "*", "starlark:v0.5"},
		{"starlark", ">=v0.4.2, <v0.5.0", "starlark:v0.4"},
		{"set-labels", ">v0.2.99", "image \"set-labels\" has no version that fits tag \">v0.2.99\"; built in are v0.1, v0.2"},
		{"set-namespace", "~0.3.1, <v0.3.3", "image \"set-namespace\" has no version that fits tag \"~0.3.1, <v0.3.3\"; built in are v0.1, v0.2, v0.3 (from patch 3), v0.4"},
		{"nginx", "~1", "image \"nginx\" is not a built-in function, and no function host of this server has it: see docs/functions.md"},
		{"set-labels", "~a", "tag \"~a\" is neither a version nor a constraint: improper constraint: \"~a\""},
	} {
		got, err := functions.Choose(tc.image, tc.constraint)
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.image, tc.constraint, got, tc.want)
		}
	}
}

const workload = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web # ours
  namespace: old
spec:
  replicas: 2
  selector:
    matchLabels:
      app: x
  template:
    metadata:
      labels:
        app: x
    spec:
      containers:
      - name: web
        image: nginx:1.20.2 # pinned
      - name: db
        image: registry.example.com:5000/nginx:1
`

func TestSetLabels(t *testing.T) {
	check(t, map[string]example{
		"ConfigMap": {
			image: "set-labels:v0.2", config: data("color: orange", "app: new"), in: workload,
			want: strings.NewReplacer("namespace: old\n", "namespace: old\n  labels:\n    app: new\n    color: orange\n",
				"      app: x\n  template", "      app: new\n      color: orange\n  template",
				"        app: x\n    spec", "        app: new\n        color: orange\n    spec").Replace(workload),
			wantResults: []string{"info: set 6 labels in total"},
		},
		"Selectors": {
			image: "set-labels:v0.2", config: data("app: new", `on: "true"`),
			in: `apiVersion: v1
kind: Service
metadata: {name: s}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: p
  labels: {}
spec:
  selector:
    matchLabels:
      app: x
`,
			want: `apiVersion: v1
kind: Service
metadata: {name: s, labels: {app: new, on: "true"}}
spec:
  selector:
    app: new
    on: "true"
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: p
  labels:
    app: new
    on: "true"
spec:
  selector:
    matchLabels:
      app: new
`,
		},
		"AdditionalFields": {
			image: "set-labels:v0.1", config: `apiVersion: fn.kpt.dev/v1alpha1
kind: SetLabels
labels:
  color: orange
additionalLabelFields:
- path: data/selector
  kind: MyOwnKind
  create: true
- path: data/not/there
- path: data/a\/b
  group: other.example.com
`,
			in: "apiVersion: example.com/v1\nkind: MyOwnKind\nmetadata:\n  name: m\n---\napiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n",
			want: "apiVersion: example.com/v1\nkind: MyOwnKind\nmetadata:\n  name: m\n  labels:\n    color: orange\ndata:\n  selector:\n    color: orange\n" +
				"---\napiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n",
		},
		"VolumesAndCronJobs": {
			image: "set-labels:v0.2", config: data("a: b"),
			in: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: s\nspec:\n  volumeClaimTemplates:\n  - metadata:\n      name: v\n" +
				"---\napiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: c\nspec: {}\n",
			want: "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: s\n  labels:\n    a: b\nspec:\n  volumeClaimTemplates:\n  - metadata:\n      name: v\n      labels:\n        a: b\n" +
				"  template:\n    metadata:\n      labels:\n        a: b\n  selector:\n    matchLabels:\n      a: b\n" +
				"---\napiVersion: batch/v1\nkind: CronJob\nmetadata:\n  name: c\n  labels:\n    a: b\nspec:\n  jobTemplate:\n    metadata:\n      labels:\n        a: b\n" +
				"    spec:\n      template:\n        metadata:\n          labels:\n            a: b\n",
		},
		"NoLabels":     {image: "set-labels:v0.2", config: "apiVersion: v1\nkind: ConfigMap\n", wantError: "at least one label is required"},
		"NoConfig":     {image: "set-labels:v0.2", wantError: "needs a functionConfig of kind ConfigMap or SetLabels"},
		"OtherKind":    {image: "set-labels:v0.2", config: "apiVersion: v1\nkind: Secret\n", wantError: `kind "Secret" is not supported`},
		"UnknownField": {image: "set-labels:v0.2", config: "kind: SetLabels\nlabels: {a: b}\nlables: {}\n", wantError: `field "lables" is not supported`},
		"UnknownDeep":  {image: "set-labels:v0.2", config: "kind: SetLabels\nlabels: {a: b}\nadditionalLabelFields: [{path: a, creat: true}]\n", wantError: `field "creat" is not supported`},
		"NoPath":       {image: "set-labels:v0.2", config: "kind: SetLabels\nlabels: {a: b}\nadditionalLabelFields: [{kind: a}]\n", wantError: "path is required"},
		"NoMapping":    {image: "set-labels:v0.2", config: data("a: b"), in: "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: [a]}\n", wantError: "metadata/labels is not a mapping"},
		"BinaryData":   {image: "set-labels:v0.2", config: "apiVersion: v1\nkind: ConfigMap\nbinaryData: {a: b}\n", wantError: `field "binaryData" is not supported`},
		"OtherVersion": {image: "set-labels:v0.2", config: "apiVersion: fn.kpt.dev/v9\nkind: SetLabels\nlabels: {a: b}\n", wantError: `apiVersion "fn.kpt.dev/v9" of SetLabels is not supported`},
	})
}

func TestSetAnnotations(t *testing.T) {
	check(t, map[string]example{
		"ConfigMap": {
			image: "set-annotations:v0.1", config: data("color: orange"),
			in:   "apiVersion: apps/v1\nkind: DaemonSet\nmetadata:\n  name: d\n  annotations:\n    color: 'red' # was\n",
			want: "apiVersion: apps/v1\nkind: DaemonSet\nmetadata:\n  name: d\n  annotations:\n    color: 'orange' # was\nspec:\n  template:\n    metadata:\n      annotations:\n        color: orange\n",
		},
		"AdditionalFields": {
			image: "set-annotations:v0.1.4", config: "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetAnnotations\nannotations:\n  color: orange\n" +
				"additionalAnnotationFields:\n- path: spec/selector/annotations\n  group: dev.example.com\n  version: v1\n  kind: MyResource\n",
			in:   "apiVersion: dev.example.com/v1\nkind: MyResource\nmetadata:\n  name: m\nspec:\n  selector:\n    annotations:\n      foo: bar\n",
			want: "apiVersion: dev.example.com/v1\nkind: MyResource\nmetadata:\n  name: m\n  annotations:\n    color: orange\nspec:\n  selector:\n    annotations:\n      foo: bar\n      color: orange\n",
		},
		"NoAnnotations": {image: "set-annotations:v0.1", config: "kind: SetAnnotations\n", wantError: "at least one annotation"},
	})
}

func TestSetImage(t *testing.T) {
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(workload) }
	check(t, map[string]example{
		"NameAndTag": {
			image: "set-image:v0.1", config: data("name: nginx", "newName: bitnami/nginx", `newTag: 1.21.4`), in: workload,
			want: replaced("nginx:1.20.2", "bitnami/nginx:1.21.4"),
		},
		"Digest":   {image: "set-image:v0.1", config: data("name: nginx", "newName: nginx", "digest: sha256:123"), in: workload, want: replaced("nginx:1.20.2", "nginx@sha256:123")},
		"OnlyName": {image: "set-image:v0.1", config: data("name: registry.example.com:5000/nginx", "newName: n"), in: workload, want: replaced("registry.example.com:5000/nginx:1", "n:1")},
		"AdditionalFields": {
			image: "set-image:v0.1", config: "kind: SetImage\nimage:\n  name: nginx\n  newTag: \"2\"\n" +
				"additionalImageFields:\n- kind: MyKind\n  group: dev.example.com\n  version: v1\n  path: spec/manifest/images[]/image\n  create: false\n",
			in:   "apiVersion: dev.example.com/v1\nkind: MyKind\nmetadata:\n  name: m\nspec:\n  manifest:\n    images:\n    - image: nginx@sha256:1\n    - image: postgres:14\n",
			want: "apiVersion: dev.example.com/v1\nkind: MyKind\nmetadata:\n  name: m\nspec:\n  manifest:\n    images:\n    - image: nginx:2\n    - image: postgres:14\n",
		},
		"NoName":       {image: "set-image:v0.1", config: data("newName: n"), wantError: "name is required"},
		"Nothing":      {image: "set-image:v0.1", config: data("name: n"), wantError: "one of newName, newTag and digest is required"},
		"TagAndDigest": {image: "set-image:v0.1", config: data("name: n", "newTag: a", "digest: b"), wantError: "are mutually exclusive"},
		"UnknownKey":   {image: "set-image:v0.1", config: data("name: n", "tag: a"), wantError: "data.tag is not supported by set-image; supported keys: name, newName, newTag, digest"},
	})
}

func TestSetNamespace(t *testing.T) {
	const in = `apiVersion: v1
kind: Namespace
metadata:
  name: old
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: d
  namespace: old # here
  annotations:
    config.kubernetes.io/depends-on: /namespaces/old/Secret/s, apps/namespaces/outside/StatefulSet/s
---
apiVersion: v1
kind: Secret
metadata:
  name: s
  namespace: old
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: b
subjects:
- kind: ServiceAccount
  name: a
  namespace: old
- kind: ServiceAccount
  name: a
- kind: User
  name: u
  namespace: kept
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: v1.example.com
spec:
  service:
    namespace: old
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  group: example.com
  scope: Cluster
  names:
    kind: Thing
  conversion:
    webhook:
      clientConfig:
        service:
          namespace: old
---
apiVersion: example.com/v1
kind: Thing
metadata:
  name: t
---
apiVersion: example.com/v1
kind: Unknown
metadata:
  name: local
  annotations:
    config.kubernetes.io/local-config: "true"
---
apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: p
---
apiVersion: example.com/v1
kind: Unknown
metadata:
  name: u
`
	const additional = "- group: dev.example.com\n  version: v1\n  kind: MyResource\n  path: spec/configmapRef/namespace\n  create: true\n" +
		"- kind: MyResource\n  path: spec/peers/namespace\n"
	const subjects = `apiVersion: v1
kind: ServiceAccount
metadata:
  name: declared
  namespace: old
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: b
  namespace: old
subjects:
- kind: ServiceAccount
  name: default
  namespace: old
- kind: ServiceAccount
  name: declared
  namespace: old
- kind: ServiceAccount
  name: of-others
  namespace: old
- kind: Group
  name: default
`
	check(t, map[string]example{
		"All": {
			image: "set-namespace:v0.4.1", config: data("namespace: new"), in: in,
			want:        strings.NewReplacer("name: old", "name: new", "namespace: old", "namespace: new", "/namespaces/old/", "/namespaces/new/").Replace(in) + "  namespace: new\n",
			wantResults: []string{`info: namespace "", "old" updated to "new", 8 value(s) changed`},
		},
		"OwnKind": {
			image: "set-namespace:v0.4", config: "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nnamespace: new\n",
			in: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: new\n", wantResults: []string{`info: all namespaces are already "new". no value changed`},
		},
		"PackageContext": {
			image:  "set-namespace:v0.4",
			config: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: example\n  package-path: a/b\n",
			in:     "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: old\n",
			want:   "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: example\n",
		},
		// The first versions do to these objects what the last one does.
		"First": {
			image: "gcr.io/kpt-fn/set-namespace:v0.1", config: data("namespace: new"), in: in,
			want: strings.NewReplacer("name: old", "name: new", "namespace: old", "namespace: new", "/namespaces/old/", "/namespaces/new/").Replace(in) + "  namespace: new\n",
		},
		"FirstAdditionalFields": {
			image: "set-namespace:v0.1.4", config: "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nnamespace: new\nadditionalNamespaceFields:\n" + additional,
			in: "apiVersion: dev.example.com/v1\nkind: MyResource\nmetadata:\n  name: m\nspec:\n  peers:\n  - namespace: old # theirs\n  - namespace: new\n  - name: n\n" +
				"---\napiVersion: dev.example.com/v1\nkind: Other\nmetadata:\n  name: o\n  namespace: new\nspec:\n  peers:\n  - namespace: old\n",
			want: "apiVersion: dev.example.com/v1\nkind: MyResource\nmetadata:\n  name: m\n  namespace: new\nspec:\n  peers:\n  - namespace: new # theirs\n  - namespace: new\n  - name: n\n" +
				"  configmapRef:\n    namespace: new\n---\napiVersion: dev.example.com/v1\nkind: Other\nmetadata:\n  name: o\n  namespace: new\nspec:\n  peers:\n  - namespace: old\n",
			wantResults: []string{`info: namespace "", "old" updated to "new", 3 value(s) changed`},
		},
		"SecondAdditionalFields": {
			image: "set-namespace:v0.2", config: "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nnamespace: new\nadditionalNamespaceFields: [{path: spec/to}]\n",
			in:   "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: new\nspec:\n  to: old\n",
			want: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: new\nspec:\n  to: new\n",
		},
		"SecondSubjects": {
			image: "set-namespace:v0.2.0", config: data("namespace: new"), in: subjects,
			want: strings.NewReplacer("b\n  namespace: old", "b\n  namespace: new", "default\n  namespace: old", "default\n  namespace: new", "declared\n  namespace: old", "declared\n  namespace: new").Replace(subjects),
		},
		"FirstSubjects":   {image: "set-namespace:v0.1", config: data("namespace: new"), in: subjects, want: strings.ReplaceAll(subjects, "namespace: old", "namespace: new")},
		"LatestSubjects":  {image: "set-namespace:latest", config: data("namespace: new"), in: subjects, want: strings.ReplaceAll(subjects, "namespace: old", "namespace: new")},
		"UntaggedContext": {image: "set-namespace", config: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: old\n", in: subjects},
		"LastAdditional": {
			image: "set-namespace:v0.4", config: "kind: SetNamespace\nnamespace: new\nadditionalNamespaceFields:\n" + additional,
			wantError: `field "additionalNamespaceFields" is not supported`,
		},
		"AdditionalNoPath":  {image: "set-namespace:v0.1", config: "kind: SetNamespace\nnamespace: new\nadditionalNamespaceFields: [{kind: a}]\n", wantError: "path is required"},
		"AdditionalMapping": {image: "set-namespace:v0.1", config: "kind: SetNamespace\nnamespace: new\nadditionalNamespaceFields: [{path: metadata}]\n", in: subjects, wantError: "metadata is not a scalar"},
		"FirstFieldSpecs":   {image: "set-namespace:v0.1", config: "kind: SetNamespace\nnamespace: new\nfieldSpecs: [{path: a}]\n", wantError: `field "fieldSpecs" is not supported`},
		"FirstContext": {
			image: "set-namespace:v0.1", config: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: example\n",
			wantError: "data.name is not supported by set-namespace",
		},
		"Two":        {image: "set-namespace:v0.4", config: data("namespace: n"), in: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n", wantError: "the package has Namespaces a, b"},
		"NoName":     {image: "set-namespace:v0.4", config: "apiVersion: v1\nkind: ConfigMap\n", wantError: "namespace is required"},
		"UnknownKey": {image: "set-namespace:v0.4", config: data("namespace: a", "other: b"), wantError: "data.other is not supported"},
		"Matcher": {
			image: "set-namespace:v0.4", config: data("namespace: new", "namespaceMatcher: a"),
			in:   inNamespace("a", "") + "---\n" + inNamespace("b", "") + "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n",
			want: inNamespace("new", "") + "---\n" + inNamespace("b", "") + "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: new\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n",
		},
		"MatcherDefault": {
			image: "set-namespace:v0.4", config: "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nmetadata:\n  name: c\nnamespace: new\nnamespaceMatcher: default\n",
			in:   "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n---\n" + inNamespace("b", ""),
			want: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: new\n---\n" + inNamespace("b", ""),
		},
		"StrictByNamespace": {
			image: "set-namespace:v0.3.4", config: data("namespace: new"),
			in:   in + "---\n" + inNamespace("b", "") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: none\n",
			want: strings.NewReplacer("name: old", "name: new", "namespace: old", "namespace: new", "/namespaces/old/", "/namespaces/new/").Replace(in) + "---\n" + inNamespace("b", "") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: none\n",
		},
		"StrictByObjects": {
			image: "set-namespace:v0.3", config: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: new\n",
			in:   inNamespace("a", "") + "---\n" + inNamespace("local", localConfig) + "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: none\n",
			want: inNamespace("new", "") + "---\n" + inNamespace("local", localConfig) + "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: none\n",
		},
		"StrictMatcher": {
			image: "set-namespace:v0.3.3", config: data("namespace: new", "namespaceMatcher: a"),
			in: inNamespace("a", "") + "---\n" + inNamespace("b", ""), want: inNamespace("new", "") + "---\n" + inNamespace("b", ""),
		},
		"StrictNothing": {
			image: "set-namespace:v0.3", config: data("namespace: new"), in: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: none\n",
			wantResults: []string{`info: all namespaces are already "new". no value changed`},
		},
		"StrictSeveral":         {image: "set-namespace:v0.3", config: data("namespace: new"), in: inNamespace("a", "") + "---\n" + inNamespace("b", ""), wantError: "the objects are in namespaces a, b: v0.3 changes one; name it in namespaceMatcher"},
		"StrictSubject":         {image: "set-namespace:v0.3", config: data("namespace: new"), in: inNamespace("a", "") + "---\n" + subjects, wantError: "the objects are in namespaces a, old"},
		"StrictTwoNamespaces":   {image: "set-namespace:v0.3", config: data("namespace: new"), in: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n", wantError: "the package has Namespaces a, b: v0.3 changes one"},
		"StrictMatcherOfASpace": {image: "set-namespace:v0.3", config: data("namespace: new", "namespaceMatcher: a"), in: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", wantError: "cannot be used for a package with a Namespace, which is a"},
		"StrictAdditional":      {image: "set-namespace:v0.3", config: "kind: SetNamespace\nnamespace: new\nadditionalNamespaceFields:\n" + additional, wantError: `field "additionalNamespaceFields" is not supported`},
		"MatcherBefore":         {image: "set-namespace:v0.2", config: data("namespace: a", "namespaceMatcher: b"), wantError: "data.namespaceMatcher is not supported"},
		"Local":                 {image: "set-namespace:v0.4", config: data("namespace: new"), in: inNamespace("a", localConfig) + "---\n" + inNamespace("b", ""), want: inNamespace("a", localConfig) + "---\n" + inNamespace("new", "")},
		"LocalBefore":           {image: "set-namespace:v0.2", config: data("namespace: new"), in: inNamespace("a", localConfig), want: inNamespace("new", localConfig)},
	})
}

func TestApplySetters(t *testing.T) {
	const in = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: my-nginx
  labels:
    on: "x" # kpt-set: ${on}
    off: x # kpt-set: ${on}
spec:
  replicas: 4 # kpt-set: ${nginx-replicas}
  template:
    spec:
      containers:
      - name: nginx
        image: "nginx:1.16.1" # kpt-set: ${image}:${tag}
        args: [a, b] # kpt-set: ${args}
---
apiVersion: v1
kind: MyKind
metadata:
  name: foo
environments: # kpt-set: ${env}
- dev
- stage
`
	check(t, map[string]example{
		"Scalars": {
			image: "apply-setters:v0.2", config: data(`nginx-replicas: "3"`, "tag: 1.16.2", `on: "true"`), in: in,
			want: strings.NewReplacer("replicas: 4", "replicas: 3", "1.16.1", "1.16.2", `"x"`, `"true"`, "off: x", `off: "true"`).Replace(in),
		},
		"Lists": {
			image: "apply-setters:v0.2", config: data("env: |", "  - prod", "  - dev", "args: '[c]'"), in: in,
			want: strings.NewReplacer("- dev\n- stage", "- prod\n- dev", "[a, b]", "[c]").Replace(in),
		},
		"OtherSetters": {image: "apply-setters:v0.2", config: data("other: x"), in: in, wantResults: []string{"info: no field was changed"}},
		"Missing": {
			image: "apply-setters:v0.2", config: data("tag: x"), in: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a # kpt-set: ${tag}-${name}\n",
			wantError: `resources.yaml: Pod a: field metadata.name: values for setters ["name"] must be provided`,
		},
		"NoList":    {image: "apply-setters:v0.2", config: data("env: dev"), in: in, wantError: `field environments: setter "env" must be a list in YAML, such as [a, b]`},
		"ListByTwo": {image: "apply-setters:v0.2", config: data("env: dev"), in: "apiVersion: v1\nkind: MyKind\nmetadata:\n  name: foo\nl: [a] # kpt-set: ${env}-x\n", wantError: "a list must have a pattern of one setter"},
		"NoData":    {image: "apply-setters:v0.2", config: "apiVersion: v1\nkind: ConfigMap\n", wantError: "at least one setter"},
	})
}

func TestSearchReplace(t *testing.T) {
	const in = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: something-foo
  namespace: something-bar # where
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: a
        ports:
        - containerPort: 80
      - name: b
`
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(in) }
	check(t, map[string]example{
		"ByPathAndValue": {image: "search-replace:v0.2", config: data("by-path: metadata.name", "by-value: something-foo", "put-value: mine"), in: in, want: replaced("something-foo", "mine")},
		"ByRegex": {
			image: "search-replace:v0.2", config: data("by-value-regex: something-(.*)", "put-value: id-${1}"), in: in,
			want:        replaced("something-foo", "id-foo", "something-bar", "id-bar"),
			wantResults: []string{`info metadata.name: Mutated field value to "id-foo"`, `info metadata.namespace: Mutated field value to "id-bar"`, "info: 2 field(s) matched"},
		},
		"RegexIsWhole": {image: "search-replace:v0.2", config: data("by-value-regex: some", "put-value: x"), in: in},
		"Comment": {
			image: "search-replace:v0.2", config: data("by-value-regex: something-(.*)", "put-comment: 'kpt-set: ${project}-${1}'"), in: in,
			want: replaced("something-foo", "something-foo # kpt-set: ${project}-foo", "something-bar # where", "something-bar # kpt-set: ${project}-bar"),
		},
		"Deep":        {image: "search-replace:v0.2", config: data("by-path: spec.**.containerPort", "by-value: '80'", "put-value: '81'"), in: in, want: replaced("80", "81")},
		"Index":       {image: "search-replace:v0.2", config: data("by-path: 'spec.template.spec.containers[1].name'", "put-value: c"), in: in, want: replaced("- name: b", "- name: c")},
		"EachIndex":   {image: "search-replace:v0.2", config: data("by-path: 'spec.template.spec.containers[*].name'", "put-value: c"), in: in, want: replaced("- name: a", "- name: c", "- name: b", "- name: c")},
		"Star":        {image: "search-replace:v0.2", config: data("by-path: '*.name'", "put-value: c"), in: in, want: replaced("something-foo", "c")},
		"Creates":     {image: "search-replace:v0.2", config: data("by-path: metadata.labels.a", "put-value: '1'"), in: in, want: replaced("# where\n", "# where\n  labels:\n    a: \"1\"\n")},
		"Search":      {image: "search-replace:v0.2", config: data("by-value: '3'"), in: in, wantResults: []string{`info spec.replicas: Matched field value "3"`, "info: 1 field(s) matched"}},
		"File":        {image: "search-replace:v0.2", config: data("by-file-path: '**/res*.yaml'", "by-path: metadata.name", "put-value: c"), in: in, want: replaced("something-foo", "c")},
		"OtherFile":   {image: "search-replace:v0.2", config: data("by-file-path: 'a/**/*.yaml'", "by-path: metadata.name", "put-value: c"), in: in},
		"NoMatcher":   {image: "search-replace:v0.2", config: data("put-value: c"), wantError: "at least one of by-value"},
		"BadRegex":    {image: "search-replace:v0.2", config: data("by-value-regex: '('"), wantError: "data.by-value-regex: error parsing regexp"},
		"BadPath":     {image: "search-replace:v0.2", config: data("by-path: 'a[x]'"), wantError: "data.by-path: [x]: brackets must have a number or *"},
		"NoGroup":     {image: "search-replace:v0.2", config: data("by-value-regex: something-foo", "put-value: '${1}'"), in: in, wantError: "by-value-regex does not have this group"},
		"UnknownKey":  {image: "search-replace:v0.2", config: data("by-valu: c"), wantError: "data.by-valu is not supported"},
		"CommentLine": {image: "search-replace:v0.2", config: data("by-value: '3'", `put-comment: "a\nb"`), in: in, wantError: "put-comment must have one line"},
	})
}

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern  string
		yes, not []string
	}{
		{"**/baz.yaml", []string{"foo/bar/baz.yaml", "bar/baz.yaml", "baz.yaml"}, []string{"foo/bar/bat.yaml", "xbaz.yaml"}},
		{"foo/**/baz.yaml", []string{"foo/bar/baz.yaml", "foo/bar/bor/baz.yaml", "foo/baz.yaml"}, []string{"bar/baz.yaml", "baz.yaml"}},
		{"foo/*/baz.yaml", []string{"foo/bar/baz.yaml"}, []string{"bar/baz.yaml", "baz.yaml", "foo/bar/bor/baz.yaml"}},
		{"foo/**.yaml", []string{"foo/a.yaml"}, []string{"foo/b/a.yaml"}},
		{"[a-c]?.{yaml,json}", []string{"ax.yaml", "bx.json"}, []string{"dx.yaml", "a.yaml", "ax.yml"}},
		{"[!a]x", []string{"bx"}, []string{"ax", "/x"}},
		{`\*x`, []string{"*x"}, []string{"ax"}},
		{"foo/**", []string{"foo/a", "foo/a/b"}, []string{"bar/a"}},
	} {
		g, err := functions.Glob(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range tc.yes {
			if !g.MatchString(path) {
				t.Errorf("%s does not match %s", tc.pattern, path)
			}
		}
		for _, path := range tc.not {
			if g.MatchString(path) {
				t.Errorf("%s matches %s", tc.pattern, path)
			}
		}
	}
}

const localConfig = "  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"

// inNamespace returns a ConfigMap with further metadata.
func inNamespace(namespace, more string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: " + namespace + "\n" + more
}

// TestLabelsOfLocalConfig: since v0.2, set-labels leaves what is never applied.
func TestLabelsOfLocalConfig(t *testing.T) {
	const labels = "  labels:\n    a: b\n"
	check(t, map[string]example{
		"Since":  {image: "set-labels:v0.2", config: data("a: b"), in: inNamespace("n", localConfig) + "---\n" + inNamespace("n", ""), want: inNamespace("n", localConfig) + "---\n" + inNamespace("n", labels)},
		"Before": {image: "set-labels:v0.1", config: data("a: b"), in: inNamespace("n", localConfig), want: inNamespace("n", localConfig+labels)},
	})
}
