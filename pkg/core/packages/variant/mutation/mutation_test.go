package mutation_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/variant/mutation"
)

const kptfile = `apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web # ours
pipeline:
  mutators:
  # last of all
  - image: apply-replacements:v0.1.1 # keep
    configPath: r.yaml
`

const complete = `  - type: PVOperationsComplete
    status: "True"
    reason: OperationsComplete
    message: all operations of the package variant are complete
`

const gate = "info:\n  readinessGates:\n  - conditionType: PVOperationsComplete\n"

// input returns an input with a spec and files that are added to a package.
func input(t *testing.T, name, spec string, files kpt.Files) *mutation.Input {
	t.Helper()
	pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &pv.Spec); err != nil {
		t.Fatal(err)
	}
	all := kpt.Files{"Kptfile": kptfile}
	maps.Copy(all, files)
	return &mutation.Input{Variant: pv, Revision: "repo.web.w", Files: all, Lookup: lookup}
}

// lookup finds objects in a cluster that serves some kinds.
func lookup(kind schema.GroupVersionKind, name string) (map[string]any, error) {
	switch kind.String() + " " + name {
	case "/v1, Kind=ConfigMap east":
		return map[string]any{"data": map[string]any{"b": "2", "a": "1", "yes": "true"}}, nil
	case "infra.example.com/v1, Kind=Endpoints east":
		return map[string]any{"spec": map[string]any{"port": int64(80), "hosts": []any{"x", "y"}}}, nil
	case "infra.example.com/v1, Kind=Endpoints bare", "/v1, Kind=Secret east":
		return map[string]any{"data": map[string]any{"password": "hidden"}}, nil
	case "infra.example.com/v1, Kind=Endpoints dark":
		return nil, errors.New("connection refused")
	}
	if kind.Group == "refused.example.com" {
		return nil, mutation.RefusedError("they are confidential")
	}
	if kind.Group == "gone.example.com" {
		return nil, mutation.ErrNotServed
	}
	return nil, nil
}

func point(kind, name, value string) string {
	return fmt.Sprintf("apiVersion: infra.example.com/v1\nkind: %s\nmetadata:\n  name: %s # here\n  annotations:\n    kpt.dev/config-injection: %s\nspec:\n  port: 1\n", kind, name, value)
}

func TestApply(t *testing.T) {
	const context = "# about us\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: web # set by the server\n  old: x\n  stays: \"1\"\n"
	for name, tc := range map[string]struct {
		variant string
		spec    string
		files   kpt.Files
		want    kpt.Files // of those that change
		err     string
	}{
		"Nothing": {"my-pv", "{}", nil, kpt.Files{"Kptfile": kptfile + gate + "status:\n  conditions:\n" + complete}, ""},
		"Context": {
			"my-pv", "packageContext: {data: {region: east, stays: '1', both: x, fine: 'true'}, removeKeys: [old, both, absent]}",
			kpt.Files{"package-context.yaml": context},
			kpt.Files{"package-context.yaml": "# about us\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: web # set by the server\n  stays: \"1\"\n  fine: \"true\"\n  region: east\n"},
			"",
		},
		"NoContext": {
			"my-pv", "packageContext: {data: {region: east}}", nil, nil,
			"spec.packageContext: package-context.yaml not found in PackageRevisionResources 'default/repo.web.w'; packages have one if their Repository has spec.deployment",
		},
		"OtherContext": {
			"my-pv", "packageContext: {data: {region: east}}",
			kpt.Files{"package-context.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n"},
			nil,
			"spec.packageContext: package-context.yaml of PackageRevisionResources 'default/repo.web.w' does not contain ConfigMap kptfile.kpt.dev",
		},
		"NoData": {
			"my-pv", "packageContext: {removeKeys: [a]}",
			kpt.Files{"package-context.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n"},
			nil,
			"spec.packageContext: package-context.yaml of PackageRevisionResources 'default/repo.web.w': no data field found",
		},
		"Functions": {
			"my-pv", `pipeline:
  mutators:
  - {image: "gcr.io/kpt-fn/set-namespace:v0.1", configMap: {namespace: my-ns}, name: my-func}
  - {image: "gcr.io/kpt-fn/set-labels:v0.1", configMap: {app: foo}}
  validators:
  - {image: kubeval, selectors: [{kind: Deployment}]}`, nil,
			kpt.Files{"Kptfile": strings.Replace(kptfile, "  # last of all", `  - image: gcr.io/kpt-fn/set-namespace:v0.1
    configMap:
      namespace: my-ns
    name: PackageVariant.my-pv.my-func.0
  - image: gcr.io/kpt-fn/set-labels:v0.1
    configMap:
      app: foo
    name: PackageVariant.my-pv..1
  # last of all`, 1) + `  validators:
  - image: kubeval
    name: PackageVariant.my-pv..0
    selectors:
    - kind: Deployment
` + gate + "status:\n  conditions:\n" + complete},
			"",
		},
		"FunctionsGo": {
			"my.pv", "{}",
			kpt.Files{"Kptfile": strings.Replace(kptfile, "  # last of all", "  - image: a\n    name: PackageVariant.my.pv.with.dots.0\n  - image: b\n    name: PackageVariant.my.other.x.0\n  - image: c\n    name: PackageVariant.my.pv.x\n  # last of all", 1) + "  validators:\n  - image: d\n    name: PackageVariant.my.pv..12\n"},
			kpt.Files{"Kptfile": strings.Replace(kptfile, "  # last of all", "  - image: b\n    name: PackageVariant.my.other.x.0\n  - image: c\n    name: PackageVariant.my.pv.x\n  # last of all", 1) + gate + "status:\n  conditions:\n" + complete},
			"",
		},
		"Injected": {
			"my-pv", "injectors: [{kind: Other, name: x}, {group: infra.example.com, version: v1, kind: Endpoints, name: east}, {name: absent}]",
			kpt.Files{"e.yaml": "---\n# first\na: 1\n---\n" + point("Endpoints", "service", "required") + "---\nz:   {last: here}\n"},
			kpt.Files{
				"e.yaml": "---\n# first\na: 1\n---\napiVersion: infra.example.com/v1\nkind: Endpoints\nmetadata:\n  name: service # here\n  annotations:\n    kpt.dev/config-injection: required\n" +
					"    kpt.dev/injected-resource-name: 'east'\nspec:\n  hosts:\n  - x\n  - \"y\"\n  port: 80\n---\nz:   {last: here}\n",
				"Kptfile": kptfile + gate + "  - conditionType: config.injection.Endpoints.service\nstatus:\n  conditions:\n" + complete +
					"  - type: config.injection.Endpoints.service\n    status: \"True\"\n    reason: ConfigInjected\n    message: injected resource \"east\" from cluster\n",
			},
			"",
		},
		"ConfigMap": {
			"my-pv", "injectors: [{name: east}]",
			kpt.Files{"c.json": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","annotations":{"kpt.dev/config-injection":"optional","kpt.dev/injected-resource":"east"}}}`},
			kpt.Files{
				"c.json": "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"ConfigMap\",\n  \"metadata\": {\n    \"name\": \"c\",\n    \"annotations\": {\n      \"kpt.dev/config-injection\": \"optional\",\n      \"kpt.dev/injected-resource\": \"east\"\n    }\n  },\n  \"data\": {\n    \"a\": \"1\",\n    \"b\": \"2\",\n    \"yes\": \"true\"\n  }\n}\n",
				"Kptfile": kptfile + gate + "status:\n  conditions:\n" + complete +
					"  - type: config.injection.ConfigMap.c\n    status: \"True\"\n    reason: ConfigInjected\n    message: injected resource \"east\" from cluster\n",
			},
			"",
		},
		"InjectedBefore": { // by Porch, from another object
			"my-pv", "injectors: [{name: east}]",
			kpt.Files{"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n    kpt.dev/config-injection: optional\n    kpt.dev/injected-resource: west\n"},
			kpt.Files{
				"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n    kpt.dev/config-injection: optional\n    kpt.dev/injected-resource-name: 'east'\ndata:\n  a: \"1\"\n  b: \"2\"\n  \"yes\": \"true\"\n",
				"Kptfile": kptfile + gate + "status:\n  conditions:\n" + complete +
					"  - type: config.injection.ConfigMap.c\n    status: \"True\"\n    reason: ConfigInjected\n    message: injected resource \"east\" from cluster\n",
			},
			"",
		},
		"NotInjected": {
			"my-pv", "injectors: [{name: nobody}, {name: bare, kind: Endpoints}]",
			kpt.Files{"e.yaml": point("Endpoints", "bare", "optional"), "f.yaml": strings.Replace(point("Thing", "x", "required"), "infra.", "gone.", 1), "g.yaml": point("Other", "y", "optional")},
			kpt.Files{"Kptfile": kptfile + gate + "  - conditionType: config.injection.Thing.x\nstatus:\n  conditions:\n" + complete +
				"  - type: config.injection.Endpoints.bare\n    status: \"False\"\n    reason: NoResourceSelected\n    message: field \"spec\" not found in resource \"bare\"\n" +
				"  - type: config.injection.Other.y\n    status: \"False\"\n    reason: NoResourceSelected\n    message: no resource matched any injection selector for this injection point\n" +
				"  - type: config.injection.Thing.x\n    status: \"False\"\n    reason: NoResourceSelected\n    message: no in-cluster resources of type gone.example.com/v1.Thing\n"},
			"",
		},
		"Secret": {
			"my-pv", "injectors: [{name: east}]",
			kpt.Files{"s.yaml": "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  annotations: {kpt.dev/config-injection: required}\n"},
			kpt.Files{"Kptfile": kptfile + gate + "  - conditionType: config.injection.Secret.s\nstatus:\n  conditions:\n" + complete +
				"  - type: config.injection.Secret.s\n    status: \"False\"\n    reason: NoResourceSelected\n    message: field \"spec\" not found in resource \"east\"\n"},
			"",
		},
		"Refused": { // the rest goes on
			"my-pv", "{injectors: [{name: nobody}, {name: east}], packageContext: {data: {old: new}}}",
			kpt.Files{
				"a.yaml": strings.Replace(point("Thing", "x", "optional"), "infra.", "refused.", 1), "b.yaml": strings.Replace(point("Key", "x", "required"), "infra.", "refused.", 1),
				"c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n    kpt.dev/config-injection: optional\n", "package-context.yaml": context,
			},
			kpt.Files{
				"c.yaml":               "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n    kpt.dev/config-injection: optional\n    kpt.dev/injected-resource-name: 'east'\ndata:\n  a: \"1\"\n  b: \"2\"\n  \"yes\": \"true\"\n",
				"package-context.yaml": strings.Replace(context, "old: x", "old: new", 1),
				"Kptfile": kptfile + gate + "  - conditionType: config.injection.Key.x\nstatus:\n  conditions:\n" + complete +
					"  - type: config.injection.ConfigMap.c\n    status: \"True\"\n    reason: ConfigInjected\n    message: injected resource \"east\" from cluster\n" +
					"  - type: config.injection.Key.x\n    status: \"False\"\n    reason: NoResourceSelected\n    message: 'objects of kind Key are not injected: they are confidential'\n" +
					"  - type: config.injection.Thing.x\n    status: \"False\"\n    reason: NoResourceSelected\n    message: 'objects of kind Thing are not injected: they are confidential'\n",
			},
			"",
		},
		"NoInjectors": {
			"my-pv", "{}",
			kpt.Files{"e.yaml": point("Endpoints", "service", "optional")},
			kpt.Files{"Kptfile": kptfile + gate + "status:\n  conditions:\n" + complete +
				"  - type: config.injection.Endpoints.service\n    status: \"False\"\n    reason: NoResourceSelected\n    message: no injectors defined\n"},
			"",
		},
		"PointsGo": {
			"my-pv", "{}",
			kpt.Files{
				"e.yaml": point("Endpoints", "service", "optional"),
				"Kptfile": kptfile + gate + "  - conditionType: Theirs\n  - conditionType: config.injection.Gone.x\n  - conditionType: config.injection.Endpoints.service\nstatus:\n  conditions:\n" +
					"  - type: config.injection.Gone.x\n    status: \"True\"\n  - type: Theirs\n    status: \"True\"\n",
			},
			kpt.Files{"Kptfile": kptfile + gate + "  - conditionType: Theirs\n  - conditionType: config.injection.Endpoints.service\nstatus:\n  conditions:\n" +
				"  - type: Theirs\n    status: \"True\"\n" + complete +
				"  - type: config.injection.Endpoints.service\n    status: \"False\"\n    reason: NoResourceSelected\n    message: no injectors defined\n"},
			"",
		},
		"Ambiguous": {
			"my-pv", "{}",
			kpt.Files{"a.yaml": point("Endpoints", "service", "optional") + "---\n" + point("Endpoints", "other", "maybe"), "sub/b.yaml": point("Endpoints", "service", "required")},
			nil,
			`errors in injection points: a.yaml: Endpoints/other has annotation kpt.dev/config-injection with value "maybe"; must be "required" or "optional", duplicate injection conditionType "config.injection.Endpoints.service" (a.yaml and sub/b.yaml)`,
		},
		"Unknown": {
			"my-pv", "injectors: [{name: dark}]",
			kpt.Files{"e.yaml": point("Endpoints", "service", "optional")},
			nil,
			"spec.injectors[0]: look up Endpoints dark: connection refused",
		},
		"NoKptfile":  {"my-pv", "{}", kpt.Files{"Kptfile": "a: b"}, nil, `Kptfile: apiVersion and kind are "" and "", want kpt.dev/v1 and Kptfile`},
		"BrokenFile": {"my-pv", "{}", kpt.Files{"e.yaml": "kpt.dev/config-injection: ["}, nil, "e.yaml: line 1: did not find expected node content"},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t, tc.variant, tc.spec, tc.files)
			before := maps.Clone(in.Files)
			r, err := mutation.Apply(in)
			if diff := cmp.Diff(before, in.Files); diff != "" {
				t.Errorf("the input was changed:\n%s", diff)
			}
			if tc.err != "" {
				if err == nil || err.Error() != tc.err {
					t.Errorf("got  %v\nwant %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(before)
			maps.Copy(want, tc.want)
			if _, said := tc.want["Kptfile"]; !said {
				want["Kptfile"] = kptfile + gate + "status:\n  conditions:\n" + complete
			}
			if diff := cmp.Diff(want, r.Files); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !r.Changed {
				t.Error("not changed")
			}
			again := *in
			again.Files = r.Files
			second, err := mutation.Apply(&again)
			if err != nil || second.Changed || second.Content {
				t.Errorf("applied again: %v, %s", err, cmp.Diff(r.Files, second.Files))
			}
			for _, text := range r.Files {
				if strings.Contains(text, "hidden") {
					t.Errorf("a Secret's content: %s", text)
				}
			}
		})
	}
}

// TestConditionsOfOthers stay: package-server knows which of them are about earlier content.
func TestConditionsOfOthers(t *testing.T) {
	const theirs = "  - type: Theirs\n    status: \"True\"\n"
	for _, spec := range []string{"{}", "pipeline: {mutators: [{image: x}]}", "injectors: [{name: east}]"} {
		r, err := mutation.Apply(input(t, "my-pv", spec, kpt.Files{
			"Kptfile": kptfile + "status:\n  conditions:\n" + theirs + "  - type: PackagePipelinePassed\n    status: \"True\"\n", "e.yaml": point("Endpoints", "service", "optional"),
		}))
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Files["Kptfile"]; !strings.Contains(text, theirs) || !strings.Contains(text, "PackagePipelinePassed") {
			t.Errorf("%s:\n%s", spec, text)
		}
	}
}

// TestContent: gates and conditions alone are no new content.
func TestContent(t *testing.T) {
	for spec, want := range map[string]bool{
		"{}": false, "injectors: [{name: nobody}]": false, "injectors: [{name: east}]": true, "pipeline: {mutators: [{image: x}]}": true,
	} {
		r, err := mutation.Apply(input(t, "my-pv", spec, kpt.Files{"e.yaml": point("Endpoints", "service", "required")}))
		if err != nil || r.Content != want {
			t.Errorf("%s: content %t, %v", spec, r.Content, err)
		}
	}
	in := input(t, "my-pv", "injectors: [{name: b}, {name: a}, {kind: Other, name: x}, {name: east}, {name: c}]", kpt.Files{"e.yaml": point("Endpoints", "service", "required")})
	var looked []string
	in.Lookup = func(kind schema.GroupVersionKind, name string) (map[string]any, error) {
		looked = append(looked, kind.Kind+" "+name)
		return lookup(kind, name)
	}
	_, err := mutation.Apply(in)
	if diff := cmp.Diff([]string{"Endpoints b", "Endpoints a", "Endpoints east"}, looked); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestUpgrade(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a: \"1\"\n  b: \"1\"\n"
	base := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n"
	original := kpt.Files{"Kptfile": base, "c.yaml": object}
	updated := kpt.Files{"Kptfile": base, "c.yaml": strings.Replace(object, `a: "1"`, `a: "2"`, 1), "new.yaml": strings.Replace(object, "name: c", "name: d", 1)}
	draft := kpt.Files{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: edge # ours\nstatus:\n  conditions:\n  - type: Theirs\n    status: \"True\"\n",
		"c.yaml":  strings.Replace(object, `b: "1"`, `b: "9" # by hand`, 1),
	}
	upstream := &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "up.web.w2"},
		Spec:       porchv1alpha1.PackageRevisionSpec{RepositoryName: "up", PackageName: "web", Revision: 2, Lifecycle: porchv1alpha1.LifecyclePublished},
		Content:    storev1alpha1.Content{Digest: "sha256:2"},
	}
	got, err := mutation.Upgrade(draft, original, upstream, updated, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text := got["c.yaml"]; !strings.Contains(text, `a: "2"`) || !strings.Contains(text, `b: "9" # by hand`) || got["new.yaml"] == "" {
		t.Errorf("%s", text)
	}
	k, err := kpt.ParseKptfile(got["Kptfile"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]kpt.Condition{{Type: "Theirs", Status: "True"}}, k.Conditions()); diff != "" || k.Name() != "edge" {
		t.Errorf("name %s, conditions (-want +got):\n%s", k.Name(), diff)
	}
	want := &kpt.Upstream{Type: "git", Git: &kpt.GitUpstream{Repo: "hub:default/up", Directory: "web", Ref: "web/v2", Commit: "sha256:2"}}
	if diff := cmp.Diff(want, k.UpstreamLock()); diff != "" {
		t.Errorf("lock (-want +got):\n%s", diff)
	}
	// Both sides changed the same field: the conflict is reported, and a user decides. A later
	// merge into the same draft does not bring the local value back.
	draft["c.yaml"] = strings.Replace(object, `a: "1"`, `a: "9"`, 1)
	const first = "c.yaml: ConfigMap c: data.a: changed on both sides; the upstream content is used"
	again := kpt.Files{"Kptfile": base, "c.yaml": strings.Replace(object, `a: "1"`, `a: "3"`, 1)}
	other := kpt.Files{"Kptfile": base, "c.yaml": strings.NewReplacer(`a: "1"`, `a: "2"`, `b: "1"`, `b: "3"`).Replace(object)}
	for _, tc := range []struct {
		original, updated kpt.Files
		change            string
		want              string
	}{
		{original, updated, "", first},
		{updated, again, "", first},
		{again, other, `b: "1"`, first + "; c.yaml: ConfigMap c: data.b: changed on both sides; the upstream content is used"},
	} {
		if tc.change != "" {
			draft["c.yaml"] = strings.Replace(draft["c.yaml"], tc.change, `b: "9"`, 1)
		}
		if draft, err = mutation.Upgrade(draft, tc.original, upstream, tc.updated, nil); err != nil {
			t.Fatal(err)
		}
		if k, err = kpt.ParseKptfile(draft["Kptfile"]); err != nil {
			t.Fatal(err)
		}
		want := []kpt.Condition{{Type: "Theirs", Status: "True"}, {Type: "MergeConflicts", Status: "True", Reason: "ChangedOnBothSides", Message: tc.want}}
		if diff := cmp.Diff(want, k.Conditions()); diff != "" {
			t.Errorf("conditions (-want +got):\n%s", diff)
		}
	}
}

// FuzzApply: the result of any package can be parsed, and Apply is idempotent.
func FuzzApply(f *testing.F) {
	f.Add(point("Endpoints", "service", "required"), "a", "1")
	f.Add("---\n"+point("Endpoints", "x", "optional")+"---\n# end\n", "k", "yes")
	f.Add("a: &x {b: c}\nd: *x\n---\n"+point("Endpoints", "x", "optional"), "", "")
	f.Fuzz(func(t *testing.T, file, key, value string) {
		if !utf8.ValidString(file) || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return // every API server rejects it
		}
		pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a.b"}}
		pv.Spec.Injectors = []configv1alpha1.InjectionSelector{{Name: "east"}}
		pv.Spec.Pipeline = &configv1alpha1.Pipeline{Mutators: []configv1alpha1.Function{{Image: "x", Name: key, ConfigMap: map[string]string{key: value}}}}
		in := &mutation.Input{Variant: pv, Files: kpt.Files{"Kptfile": kptfile, "f.yaml": file}, Lookup: lookup}
		first, err := mutation.Apply(in)
		if err != nil {
			return
		}
		in.Files = first.Files
		second, err := mutation.Apply(in)
		if err != nil {
			t.Fatalf("%v\n%s", err, first.Files["f.yaml"])
		}
		if second.Changed {
			t.Errorf("changed again: %s", cmp.Diff(first.Files, second.Files))
		}
	})
}
