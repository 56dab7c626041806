package functions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

func TestApplyReplacements(t *testing.T) {
	const in = `apiVersion: v1
kind: Pod
metadata:
  name: my-pod
spec:
  restartPolicy: OnFailure
---
apiVersion: v1
kind: Secret
metadata:
  name: my-secret
---
apiVersion: batch/v1
kind: Job
metadata:
  name: hello
  annotations:
    example.com/path: my/path/VALUE
spec:
  parallelism: 1
  template:
    spec:
      containers:
      - name: hello
        image: myimage
        env:
        - name: SECRET_TOKEN
          value: NAME # of the secret
`
	of := func(lines ...string) string {
		return "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nmetadata:\n  name: r\nreplacements:\n" + strings.Join(lines, "\n") + "\n"
	}
	replaced := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(in) }
	secret := "- source: {kind: Secret, name: my-secret}\n  targets:\n"
	check(t, map[string]example{
		"Documented": {
			image: "apply-replacements:v0.1", in: in,
			config: of(secret+"  - select: {name: hello, kind: Job}\n    fieldPaths:\n    - 'spec.template.spec.containers.[name=hello].env.[name=SECRET_TOKEN].value'",
				"- source: {kind: Pod, name: my-pod, fieldPath: spec.restartPolicy}\n  targets:\n  - select: {group: batch, version: v1}\n    fieldPaths: [spec.template.spec.restartPolicy]\n    options: {create: true}"),
			want: replaced("value: NAME", "value: my-secret") + "      restartPolicy: OnFailure\n",
		},
		"Delimiter": {
			image: "apply-replacements:v0.1", in: in,
			config: of(secret + "  - select: {kind: Job}\n    fieldPaths: ['metadata.annotations.[example.com/path]']\n    options: {delimiter: /, index: 2}"),
			want:   replaced("my/path/VALUE", "my/path/my-secret"),
		},
		"Prefix": {
			image: "apply-replacements:v0.1", in: in, once: true,
			config: of(secret + `  - select: {kind: Job}` + "\n" + `    fieldPaths: ['metadata.annotations.example\.com/path']` + "\n    options: {delimiter: /, index: -1}"),
			want:   replaced("my/path/VALUE", "my-secret/my/path/VALUE"),
		},
		"Suffix": {
			image: "apply-replacements:v0.1", in: in, once: true,
			config: of("- source: {kind: Secret, options: {delimiter: '-', index: 1}}\n  targets:\n  - select: {kind: Job}\n    fieldPaths: ['metadata.annotations.[example.com/path]']\n    options: {delimiter: /, index: 9}"),
			want:   replaced("my/path/VALUE", "my/path/VALUE/secret"),
		},
		"RejectAndWildcard": {
			image: "apply-replacements:v0.1", in: in,
			config: of("- sourceValue: '7'\n  targets:\n  - select: {kind: Job}\n    fieldPaths: [spec.parallelism, 'spec.template.spec.containers.*.image', spec.template.spec.containers.0.env.0.value]\n  - select: {version: v1}\n    reject: [{kind: Job}, {kind: Pod, name: my-pod}]"),
			want:   replaced("parallelism: 1", "parallelism: 7", "image: myimage", `image: "7"`, "value: NAME", `value: "7"`, "name: my-secret", `name: "7"`),
		},
		"SourceTwice":   {image: "apply-replacements:v0.1", in: in, config: of("- source: {version: v1, group: ''}\n  targets:\n  - select: {}"), wantError: "source {version=v1} must match exactly one object, matches 3"},
		"SourceNoField": {image: "apply-replacements:v0.1", in: in, config: of("- source: {kind: Pod, fieldPath: spec.x}\n  targets:\n  - select: {}"), wantError: `field "spec.x" must have exactly one value, has 0`},
		"NotThere":      {image: "apply-replacements:v0.1", in: in, config: of(secret + "  - select: {kind: Pod}\n    fieldPaths: [spec.x]"), wantError: `field "spec.x" does not exist; use options.create to create it`},
		"OutOfBounds":   {image: "apply-replacements:v0.1", in: in, config: of("- source: {kind: Pod, options: {delimiter: '-', index: 5}}\n  targets:\n  - select: {kind: Pod}"), wantError: "index 5 is out of range"},
		"NotScalar":     {image: "apply-replacements:v0.1", in: in, config: of(secret + "  - select: {kind: Pod}\n    fieldPaths: [spec]\n    options: {delimiter: '-'}"), wantError: "delimiter requires scalars"},
		"NoSelect":      {image: "apply-replacements:v0.1", in: in, config: of(secret + "  - fieldPaths: [spec]"), wantError: "targets[0]: select is required"},
		"ByLabels": {
			image:  "apply-replacements:v0.1",
			in:     "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {app: x}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  labels: {app: y}\n  annotations: {n: a}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: c\n  labels: {app: y}\n",
			config: of("- sourceValue: new\n  targets:\n  - select: {labelSelector: 'app in (x, y)'}\n    reject: [{annotationSelector: n=a}, {labelSelector: app=x}]"),
			want:   "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels: {app: x}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n  labels: {app: y}\n  annotations: {n: a}\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: new\n  labels: {app: y}\n",
		},
		"NoSelector":   {image: "apply-replacements:v0.1", in: in, config: of(secret + "  - select: {labelSelector: 'a in'}"), wantError: `targets[0].select: labelSelector "a in"`},
		"NoRejection":  {image: "apply-replacements:v0.1", in: in, config: of(secret + "  - select: {}\n    reject: [{annotationSelector: '=='}]"), wantError: `targets[0].reject[0]: annotationSelector "=="`},
		"UnknownField": {image: "apply-replacements:v0.1", in: in, config: of(secret + "  - select: {fieldSelector: a=b}"), wantError: `field "fieldSelector" is not supported`},
		"Path":         {image: "apply-replacements:v0.1", in: in, config: of("- path: replacement.yaml"), wantError: `field "path" is not supported`},
		"ConfigMap":    {image: "apply-replacements:v0.1", config: data("a: b"), wantError: `kind "ConfigMap" is not supported by apply-replacements`},
	})
}

func TestEnsureNameSubstring(t *testing.T) {
	const in = `apiVersion: v1
kind: ConfigMap
metadata:
  name: the-map
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations:
    config.kubernetes.io/depends-on: /ConfigMap/the-map,/ConfigMap/outside,rbac.authorization.k8s.io/ClusterRole/reader
spec:
  template:
    spec:
      serviceAccountName: outside
      containers:
      - env:
        - valueFrom:
            configMapKeyRef:
              name: the-map
              key: the-map
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: dev-scaler
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: web
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: reader
rules:
- resources: [configmaps]
  resourceNames: [the-map, outside]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: b
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: reader
---
apiVersion: v1
kind: Namespace
metadata:
  name: ns
---
apiVersion: dev.example.com/v1
kind: MyOwnResource
metadata:
  name: cr
spec:
  name: foo
`
	check(t, map[string]example{
		"OwnKind": {
			image: "ensure-name-substring:v0.2", in: in,
			config: "apiVersion: fn.kpt.dev/v1alpha1\nkind: EnsureNameSubstring\nsubstring: dev-\neditMode: prepend\nadditionalNameFields:\n- path: spec/name\n  kind: MyOwnResource\n",
			want: strings.NewReplacer("name: the-map\n              key", "name: dev-the-map\n              key", "name: the-map", "name: dev-the-map", "/ConfigMap/the-map", "/ConfigMap/dev-the-map",
				"ClusterRole/reader", "ClusterRole/dev-reader", "name: web", "name: dev-web", "name: reader", "name: dev-reader", "[the-map,", "[dev-the-map,",
				"name: b\n", "name: dev-b\n", "name: cr", "name: dev-cr", "name: foo", "name: dev-foo").Replace(in),
		},
		"Append": {
			image: "ensure-name-substring:v0.1", config: data("append: -prod"), in: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b-prod-c\n",
			want: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a-prod\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b-prod-c\n",
		},
		"Both":     {image: "ensure-name-substring:v0.2", config: data("append: a", "prepend: b"), wantError: "exactly one of prepend and append"},
		"BadMode":  {image: "ensure-name-substring:v0.2", config: "kind: EnsureNameSubstring\nsubstring: a\neditMode: x\n", wantError: `editMode "x" is not supported`},
		"NoString": {image: "ensure-name-substring:v0.2", config: "kind: EnsureNameSubstring\n", wantError: "the substring is required"},
	})
}

func TestUpsertAndDelete(t *testing.T) {
	service := func(name, app string) string {
		return "apiVersion: v1\nkind: Service\nmetadata:\n  name: " + name + "\n  namespace: n\nspec:\n  selector:\n    app: " + app + "\n"
	}
	local := "apiVersion: a.b/v1\nkind: Local\nmetadata:\n  name: l\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"
	kptfile := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"
	check(t, map[string]example{
		"Replace":      {image: "upsert-resource:v0.2", config: service("a", "bar"), in: service("a", "foo") + "---\n" + service("b", "foo"), want: service("a", "bar") + "---\n" + service("b", "foo")},
		"Add":          {image: "upsert-resource:v0.2", config: service("c", "bar"), in: service("a", "foo"), want: service("a", "foo") + "---\n" + service("c", "bar")},
		"NoName":       {image: "upsert-resource:v0.2", config: "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n", wantError: "apiVersion, kind and metadata.name are required"},
		"List":         {image: "upsert-resource:v0.2", config: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n- {apiVersion: v1, kind: Service, metadata: {name: a, namespace: n}}\n", in: service("a", "foo"), want: "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: n}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: p}}\n"},
		"ListOfTexts":  {image: "upsert-resource:v0.2", config: "apiVersion: v1\nkind: List\nitems: [a]\n", wantError: "items[0] is not an object"},
		"NoConfig":     {image: "upsert-resource:v0.2", wantError: "needs a functionConfig"},
		"Delete":       {image: "delete-resources:v0.1", config: data("kind: Service", "name: a"), in: service("a", "x") + "---\n" + service("b", "x"), want: service("b", "x")},
		"DeleteOwn":    {image: "delete-resources:v0.1", config: "kind: DeleteResources\nselectors:\n- annotations: {config.kubernetes.io/local-config: 'true'}\n- namespace: n\nexclude:\n- name: b\n", in: service("a", "x") + "---\n" + service("b", "x") + "---\n" + local + "---\n" + kptfile, want: service("b", "x") + "---\n" + kptfile},
		"DeleteAll":    {image: "delete-resources:v0.1", config: "kind: DeleteResources\nselectors: [{}]\n", wantError: "would select all objects"},
		"DeleteOther":  {image: "delete-resources:v0.1", config: "kind: DeleteResources\nselectors: [{nam: a}]\n", wantError: `field "nam" is not supported`},
		"Local":        {image: "remove-local-config-resources:v0.1", in: kptfile + "---\n" + local + "---\n" + service("a", "x"), want: kptfile + "---\n" + service("a", "x")},
		"Annotations":  {image: "delete-annotations:v0.1", config: data("annotationKeys: 'config.kubernetes.io/local-config, x'"), in: local, want: "apiVersion: a.b/v1\nkind: Local\nmetadata:\n  name: l\n"},
		"NoAnnotation": {image: "delete-annotations:v0.1", config: data("annotationKeys: ','"), wantError: "data.annotationKeys is required"},
	})
}

func TestValidation(t *testing.T) {
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: things.example.com
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1}
              color: {type: string, enum: [red, blue]}
              code: {type: string, pattern: '^[a-z]+$'}
              port: {x-kubernetes-int-or-string: true}
              one: {oneOf: [{type: string}, {type: integer}]}
`
	pod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: c\n    resources:\n      limits: {cpu: 1, memory: 1Gi}\n"
	check(t, map[string]example{
		"Good": {image: "kubeconform:v0.1", in: pod + "---\n" + workload, wantResults: nil},
		"Wrong": {
			image: "kubeconform:v0.1", in: "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  ports:\n  - port: \"80\"\n  - name: x\n  typo: 1\n",
			wantResults: []string{"error spec.ports[0].port: Invalid value: must be of type integer, is of type string", "error spec.ports[1].port: Required value"},
		},
		"Strict": {image: "kubeval:v0.3", config: data(`strict: "true"`), in: "apiVersion: v1\nkind: Service\nmetadata:\n  name: s\nspec:\n  typo: 1\n", wantResults: []string{"error spec.typo: Forbidden: unknown field"}},
		"Custom": {
			image: "kubeconform:v0.1", in: crd + "---\napiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: t\nspec: {size: 0, color: green, code: A1, port: x, one: true}\n" +
				"---\napiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: u\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: v\nspec: {size: 2, color: red, port: 1, one: a}\n",
			wantResults: []string{
				"error spec.size: Invalid value: 0: must be greater than or equal to 1", `error spec.color: Unsupported value: "green": supported values: "red", "blue"`,
				`error spec.code: Invalid value: "A1": must match ^[a-z]+$`,
				"error spec.one: Invalid value: must match exactly one alternative of the schema (oneOf), matches 0", "error spec: Required value",
			},
		},
		"Missing": {
			image: "kubeconform:v0.1", in: "apiVersion: a.b/v1\nkind: X\nmetadata: {name: a}\n",
			wantResults: []string{"error: no schema for kind X in a.b/v1; add its CustomResourceDefinition to the package, or use skip_kinds or ignore_missing_schemas"},
		},
		"Ignored":  {image: "kubeconform:v0.1", config: data("ignore_missing_schemas: 'true'"), in: "apiVersion: a.b/v1\nkind: X\nmetadata: {name: a}\n"},
		"Skipped":  {image: "kubeconform:v0.1", config: data("skip_kinds: Y, X"), in: "apiVersion: a.b/v1\nkind: X\nmetadata: {name: a}\n"},
		"Location": {image: "kubeconform:v0.1", config: data("schema_location: file:///x"), wantError: "functions have no network and no files"},
		"NoBool":   {image: "kubeconform:v0.1", config: data("strict: x"), wantError: `data.strict must be true or false, is "x"`},
	})
}

func TestStarlark(t *testing.T) {
	program := func(source string) string {
		return "apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\nmetadata:\n  name: s\nparams:\n  toMatch:\n    config.kubernetes.io/local-config: \"true\"\n  toAdd:\n    managed: disabled\nsource: |\n  " +
			strings.ReplaceAll(strings.TrimSpace(source), "\n", "\n  ") + "\n"
	}
	const in = `# of the team
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web # ours
spec:
  replicas: 2 # few
  args: [a, b] # in a line
  containers:
  # the first
  - name: a
    image: "x"
  - name: b # the second
`
	local := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: l\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n"
	check(t, map[string]example{
		"ConfigMap": {
			image: "starlark:v0.5", in: in, want: strings.Replace(in, "replicas: 2", `replicas: "5"`, 1),
			config: data(`replicas: "5"`, "source: |", "  def setReplicas(resources, replicas):", "    for r in resources:", "      r[\"spec\"][\"replicas\"] = replicas",
				`  replicas = ctx.resource_list["functionConfig"]["data"]["replicas"]`, `  setReplicas(ctx.resource_list["items"], replicas)`),
		},
		"Annotations": {
			image: "starlark:v0.4.3", in: in + "---\n" + local, want: in + "---\n" + local + "    managed: disabled\n",
			config: program(`
toMatch = ctx.resource_list["functionConfig"]["params"]["toMatch"]
toAdd = ctx.resource_list["functionConfig"]["params"]["toAdd"]
for resource in ctx.resource_list["items"]:
  match = True
  for key in toMatch:
    if key not in resource["metadata"]["annotations"] or resource["metadata"]["annotations"][key] != toMatch[key]:
      match = False
      break
  if match:
    for key in toAdd:
      resource["metadata"]["annotations"][key] = toAdd[key]`),
		},
		"Deep": {
			image: "starlark:v0.5", in: in, want: strings.Replace(in, "  # the first\n  - name: a\n    image: \"x\"\n", "", 1) + "  - name: c\n    on: \"true\"\n", once: true,
			config: program(`
c = ctx.resource_list["items"][0]["spec"]["containers"]
c.pop(0)
c.append({"name": "c", "on": "true"})`),
		},
		"AddAndRemove": {
			image: "starlark:v0.5", in: in + "---\n" + local, want: local + "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n", once: true,
			config: program(`
ctx.resource_list["items"] = [ctx.resource_list["items"][1], {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}]`),
		},
		"Libraries": {
			image: "starlark:v0.5", in: local, want: local + "    sum: 0cc175b9c0f1b6a831c399e2697726616531\n",
			config: program(`
load("encoding/base64.star", "base64")
load("hash.star", "hash")
load("math.star", "math")
load("encoding/yaml.star", "yaml")
load("encoding/json.star", "json")
x = yaml.loads("a: [6, 5]")["a"]
ctx.resource_list["items"][0]["metadata"]["annotations"]["sum"] = hash.md5("a") + str(x[0]) + json.encode(x[1]) + str(math.ceil(2.5)) + base64.decode(base64.encode("1"))`),
		},
		"OpenAPI": {image: "starlark:v0.5", in: local, config: program(`
if "spec" not in ctx.open_api["definitions"]["io.k8s.api.apps.v1.Deployment"]["properties"] or len(ctx.environment) > 0: fail("no")`)},
		"Fails":     {image: "starlark:v0.5", in: local, config: program("x = 1\nfail('not', 'good')"), wantError: "starlark: fail: not good (line 2)"},
		"Syntax":    {image: "starlark:v0.5", in: local, config: program("def"), wantError: "starlark: source:2:1"},
		"Load":      {image: "starlark:v0.5", in: local, config: program("load('http.star', 'http')"), wantError: "does not exist; libraries are"},
		"LoadFile":  {image: "starlark:v0.5", in: local, config: program("load('/etc/passwd', 'x')"), wantError: "libraries are encoding/base64.star"},
		"NoObject":  {image: "starlark:v0.5", in: local, config: program("ctx.resource_list['items'].append({'a': 1})"), wantError: "apiVersion and kind are required"},
		"NoItems":   {image: "starlark:v0.5", in: local, config: program("ctx.resource_list['items'] = 3"), wantError: "must be a list, is of type int"},
		"Function":  {image: "starlark:v0.5", in: local, config: program("ctx.resource_list['items'][0]['x'] = len"), wantError: "cannot be written in YAML"},
		"Itself":    {image: "starlark:v0.5", in: local, config: program("i = ctx.resource_list['items'][0]\ni['x'] = i"), wantError: "nested deeper"},
		"Endless":   {image: "starlark:v0.5", in: local, config: program("while True: pass"), wantError: "the program took more than 50000000 steps"},
		"NoSource":  {image: "starlark:v0.5", config: "kind: StarlarkRun\n", wantError: "source is required"},
		"UnknownIn": {image: "starlark:v0.5", config: "kind: StarlarkRun\nsource: x\nscript: y\n", wantError: `field "script" is not supported`},
	})
	out, err := functions.Run("starlark", functions.Input{Items: items(t, "a.yaml", local), Config: config(program(`print(ctx.resource_list["items"][0]["metadata"]["annotations"]["config.kubernetes.io/path"])`))})
	if err != nil || out.Stderr != "a.yaml\n" {
		t.Errorf("printed %q, %v", out.Stderr, err)
	}
}

// fuzz runs a function on random input: it must not panic, and its output must be valid.
func fuzz(t *testing.T, image, config, in string) {
	t.Helper()
	documents, err := kpt.Documents(in)
	if err != nil || len(documents) == 0 {
		return
	}
	given, err := kpt.Documents(config)
	if err != nil || len(given) != 1 {
		return
	}
	out, err := functions.Run(image, functions.Input{Items: items(t, "a.yaml", in), Config: given[0]})
	if err != nil {
		if strings.Contains(err.Error(), "cannot process an object") {
			t.Fatal(err)
		}
		return
	}
	for _, item := range out.Items {
		text, err := item.Node.String()
		if err != nil {
			continue // what could not be written before cannot be now
		}
		if _, err := kpt.Documents(text); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
}

func FuzzSetters(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\na: b # kpt-set: ${a}-${b}\nc: [d] # kpt-set: ${a}\n", "x")
	f.Fuzz(func(t *testing.T, in, value string) {
		fuzz(t, "apply-setters", "kind: ConfigMap\ndata:\n  a: |\n    "+strings.ReplaceAll(value, "\n", "\n    ")+"\n", in)
	})
}

func FuzzSearchReplace(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\na: [b, {c: d}]\n", "a.**.c", "(.*)", "x-${1}")
	f.Fuzz(func(t *testing.T, in, path, expression, put string) {
		quote := func(text string) string {
			return "'" + strings.NewReplacer("'", "''", "\n", "\n\n    ").Replace(text) + "'"
		}
		fuzz(t, "search-replace", "kind: ConfigMap\ndata:\n  by-path: "+quote(path)+"\n  by-value-regex: "+quote(expression)+"\n  put-value: "+quote(put)+"\n", in)
	})
}

func FuzzStarlark(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Pod\na: [b, {c: d}]\n", "x = ctx.resource_list['items'][0]\nx['a'][1] = {'c': [1, 2.5, None, True]}")
	f.Fuzz(func(t *testing.T, in, source string) {
		if strings.Contains(source, "*") || len(source) > 300 { // memory is for the worker's limit
			return
		}
		fuzz(t, "starlark", "kind: StarlarkRun\nsource: |\n  "+strings.ReplaceAll(source, "\n", "\n  ")+"\n", in)
	})
}

// The results of a function are bounded, and its failure is never lost.
func TestResultsAreBounded(t *testing.T) {
	var pods strings.Builder
	for i := range 1500 {
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p%d\nspec:\n  containers:\n  - name: c\n", i)
	}
	run := func(image, settings string) functions.Output {
		t.Helper()
		out, err := functions.Run(image, functions.Input{Items: items(t, "a.yaml", pods.String()), Config: config(settings)})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run("search-replace", data("by-value: Pod"))
	if last := out.Results[len(out.Results)-1]; len(out.Results) != 1001 || last.Message != "… and 501 more results" || out.Failed() {
		t.Errorf("%d results, the last is %+v", len(out.Results), last)
	}
	pods.WriteString("---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: wrong\nspec: 3\n")
	if out = run("kubeconform", data("strict: 'false'")); !out.Failed() {
		t.Error("an error is lost")
	}
	pods.Reset()
	for i := range 1500 {
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p%d\nspec: 3\n", i)
	}
	if out = run("kubeconform", data("strict: 'false'")); !out.Failed() || len(out.Results) != 1001 {
		t.Errorf("%d results, failed %t", len(out.Results), out.Failed())
	}
}
