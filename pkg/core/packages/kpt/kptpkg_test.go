package kpt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

func TestCheck(t *testing.T) {
	big := strings.Repeat("x", kpt.MaxBytes)
	many := kpt.Files{}
	for i := range kpt.MaxFiles + 1 {
		many[fmt.Sprint(i)] = ""
	}
	bad := kpt.Files{}
	for i := range 20 {
		bad[fmt.Sprintf("../%02d", i)] = ""
	}
	cases := map[string]struct {
		files kpt.Files
		want  string
	}{
		"Good":          {kpt.Files{"Kptfile": "x", "a/b.yaml": "y", "README.md": "", "a..b": ""}, ""},
		"ClimbsOut":     {kpt.Files{"../a": ""}, `path "../a" must be relative, clean, and below the package`},
		"ClimbsInside":  {kpt.Files{"a/../../b": ""}, `path "a/../../b" must be relative, clean, and below the package`},
		"Absolute":      {kpt.Files{"/etc/passwd": ""}, `path "/etc/passwd" must be relative, clean, and below the package`},
		"NotClean":      {kpt.Files{"a//b": ""}, `path "a//b" must be relative, clean, and below the package`},
		"Directory":     {kpt.Files{"a/": ""}, `path "a/" must be relative, clean, and below the package`},
		"Empty":         {kpt.Files{"": ""}, `path "" is empty`},
		"Backslash":     {kpt.Files{`a\b`: ""}, `path "a\\b" has a control character or a backslash`},
		"Colon":         {kpt.Files{`C:x`: ""}, ``},
		"Git":           {kpt.Files{"a/.GIT/config": ""}, `path "a/.GIT/config" is in a git directory`},
		"Binary":        {kpt.Files{"a": "\xff"}, "a: is not UTF-8 text; binary files are not supported"},
		"Zero":          {kpt.Files{"a": "x\x00"}, "a: holds a zero byte; binary files are not supported"},
		"FileBelowFile": {kpt.Files{"a": "", "a/b": ""}, "a/b: a is also a file"},
		"Large":         {kpt.Files{"a": big}, fmt.Sprintf("the package has %d bytes; at most %d are allowed", len(big)+1, kpt.MaxBytes)},
		"Many":          {many, "the package has 5001 files; at most 5000 are allowed"},
		"LargeKptfile":  {kpt.Files{"a/Kptfile": big[:1<<20], "b": big[:1<<20]}, "a/Kptfile: has 1048576 bytes; a Kptfile may have 262144"},
		"LongPath":      {kpt.Files{strings.Repeat("a", 600): ""}, `path "` + strings.Repeat("a", 97) + `…" is longer than 512 bytes`},
	}
	for name, tc := range cases {
		if got := strings.Join(tc.files.Check(), "; "); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	if got := bad.Check(); len(got) != 11 || got[10] != "… and 10 more" {
		t.Errorf("errors are not bounded: %q", got)
	}
}

func TestDigest(t *testing.T) {
	a := kpt.Files{"a": "bc", "d": ""}
	for name, other := range map[string]kpt.Files{
		"Moved": {"ab": "c", "d": ""}, "Less": {"a": "bc"}, "Content": {"a": "bd", "d": ""}, "Split": {"a": "b", "c": "d"},
	} {
		if a.Digest() == other.Digest() {
			t.Errorf("%s: the digest is the same", name)
		}
	}
	if a.Digest() != (kpt.Files{"d": "", "a": "bc"}).Digest() {
		t.Error("equal files have different digests")
	}
	if digest := a.Digest(); !kpt.IsDigest(digest) || kpt.IsDigest(digest[1:]) || kpt.IsDigest(digest+"00") || kpt.IsDigest(strings.ToUpper(digest)) ||
		kpt.IsDigest(strings.Replace(digest, ":", ":g", 1)[:len(digest)]) {
		t.Errorf("a digest is not recognised, or another text is: %s", digest)
	}
}

func TestPackages(t *testing.T) {
	files := kpt.Files{"Kptfile": "", "a/Kptfile": "", "a/b/Kptfile": "", "a-b/Kptfile": "", "a/b/c/x.yaml": "", "d/x.yaml": "", "z/Kptfile": ""}
	if diff := cmp.Diff([]string{"a/b", "a", "a-b", "z", ""}, files.Packages()); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"a/b/c/x.yaml": "a/b", "d/x.yaml": "", "a/b/Kptfile": "a/b", "Kptfile": ""} {
		if got := files.PackageOf(name); got != want {
			t.Errorf("%s is in %q, want %q", name, got, want)
		}
	}
}

const someKptfile = `# ours
apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: web # the name
  labels: {team: a}
info:
  description: a web server
pipeline:
  mutators: # in this order
  - image: set-namespace:v0.4
    configMap:
      namespace: web
unknown:
- kept
`

func TestKptfileRetainsUnchangedFields(t *testing.T) {
	k, err := kpt.ParseKptfile(someKptfile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someKptfile, k.String()); diff != "" {
		t.Errorf("read and written (-want +got):\n%s", diff)
	}
	if got := k.Pipeline().Mutators; len(got) != 1 || got[0].Image != "set-namespace:v0.4" || got[0].ConfigMap["namespace"] != "web" {
		t.Errorf("mutators %+v", got)
	}
	gates := []kpt.ReadinessGate{{ConditionType: "PackagePipelinePassed"}}
	conditions := []kpt.Condition{{Type: "PackagePipelinePassed", Status: "False", Reason: "Rendering"}}
	for range 2 { // the second time changes nothing
		if err := k.SetReadinessGates(gates); err != nil {
			t.Fatal(err)
		}
		if err := k.SetConditions(conditions); err != nil {
			t.Fatal(err)
		}
	}
	want := strings.Replace(someKptfile, "a web server\n", "a web server\n  readinessGates:\n  - conditionType: PackagePipelinePassed\n", 1) +
		"status:\n  conditions:\n  - type: PackagePipelinePassed\n    status: \"False\"\n    reason: Rendering\n"
	if diff := cmp.Diff(want, k.String()); diff != "" {
		t.Errorf("with gates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(gates, k.ReadinessGates()); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(conditions, k.Conditions()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if err := k.SetReadinessGates(nil); err != nil {
		t.Fatal(err)
	}
	if err := k.SetConditions(nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someKptfile, k.String()); diff != "" {
		t.Errorf("without them again (-want +got):\n%s", diff)
	}
}

func TestParseKptfileErrors(t *testing.T) {
	for content, want := range map[string]string{
		"":                                "has 0 documents, want one",
		"a: b\n---\nc: d\n":               "has 2 documents, want one",
		"- a":                             "is not a mapping",
		"apiVersion: v1\nkind: ConfigMap": `apiVersion and kind are "v1" and "ConfigMap", want kpt.dev/v1 and Kptfile`,
		"apiVersion: kpt.dev/v1\nkind: Kptfile\npipeline: {mutators: x}": "cannot unmarshal",
		"apiVersion: [": "did not find",
	} {
		if _, err := kpt.ParseKptfile(content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
}

func TestNewKptfile(t *testing.T) {
	k, err := kpt.ParseKptfile(kpt.NewKptfile("web", "a: #server").String())
	if err != nil {
		t.Fatal(err)
	}
	if k.Name() != "web" || k.Annotations()["config.kubernetes.io/local-config"] != "true" {
		t.Errorf("%s", k)
	}
}

func TestExcessiveYAML(t *testing.T) {
	aliases := "a0: &a0 [lol]\n"
	for i := range 40 {
		aliases += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	for name, content := range map[string]string{
		"Aliases": aliases,
		"Deep":    strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		"Itself":  "a: &a [*a]",
	} {
		if documents, err := kpt.Documents(content); err == nil {
			t.Errorf("%s: %d documents", name, len(documents))
		}
	}
	if documents, err := kpt.Documents("a: &a [x]\nb: [*a, *a]\n---\n\n---\nc: d\n"); err != nil || len(documents) != 2 {
		t.Errorf("%d documents, %v", len(documents), err)
	}
}

func FuzzKptfile(f *testing.F) {
	f.Add(someKptfile)
	f.Add("apiVersion: kpt.dev/v1\nkind: Kptfile\nstatus: {conditions: [{type: A}]}\ninfo: {}\n")
	f.Add("apiVersion: kpt.dev/v1\nkind: Kptfile\nstatus:")
	f.Fuzz(func(t *testing.T, content string) {
		k, err := kpt.ParseKptfile(content)
		if err != nil {
			return
		}
		k.Pipeline()
		if err := k.SetConditions([]kpt.Condition{{Type: "A", Status: "True"}}); err != nil {
			return
		}
		again, err := kpt.ParseKptfile(k.String())
		if err != nil {
			t.Fatalf("the result cannot be parsed: %v\n%s", err, k)
		}
		if got := again.Conditions(); len(got) != 1 || got[0].Type != "A" {
			t.Errorf("conditions %+v", got)
		}
	})
}

func TestEdit(t *testing.T) {
	const file = "# head\n---\na:   1 # kept\n---\n# two\nb: [x,   y]\n...\n"
	set := func(field string) func(d *yaml.RNode) (bool, error) {
		return func(d *yaml.RNode) (bool, error) {
			if d.Field(field) == nil {
				return false, nil
			}
			return true, d.PipeE(yaml.SetField("new", yaml.NewStringRNode("z")))
		}
	}
	for name, tc := range map[string]struct{ name, content, field, want string }{
		"First":   {"f.yaml", "a:   1 # kept\n---\nb: [x,   y]\n", "a", "a: 1 # kept\nnew: z\n---\nb: [x,   y]\n"},
		"Second":  {"f.yaml", "a:   1 # kept\n---\n# two\nb: [x,   y]\n", "b", "a:   1 # kept\n---\n# two\nb: [x, y]\nnew: z\n"},
		"Marker":  {"f.yaml", "---\na:   1\n", "a", "---\na: 1\nnew: z\n"},
		"Nothing": {"f.yaml", file, "c", file},
		"Whole":   {"f.yaml", file, "b", "# head\na: 1 # kept\n---\n# two\nb: [x, y]\nnew: z\n"},
		"Wide":    {"f.yaml", "a:\n  - 1\n", "a", "a:\n  - 1\nnew: z\n"},
		"JSON":    {"f.json", `{"a":1}`, "a", "{\n  \"a\": 1,\n  \"new\": \"z\"\n}\n"},
	} {
		got, err := kpt.Edit(tc.name, tc.content, set(tc.field))
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := kpt.Edit("f.yaml", "a: &x 1\nb: *x\n", set("a")); err == nil || !strings.Contains(err.Error(), "alias") {
		t.Errorf("an alias: %v", err)
	}
}

func TestReplaceFunctions(t *testing.T) {
	const text = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: x\npipeline:\n  mutators:\n  - image: a # ours\n    name: o.0\n    unknown: kept\n  - image: b # theirs\n    unknown: kept\n"
	ours := func(name string) bool { return strings.HasPrefix(name, "o.") }
	for name, tc := range map[string]struct {
		front []kpt.Function
		want  string
	}{
		"None":    {nil, strings.Replace(text, "  - image: a # ours\n    name: o.0\n    unknown: kept\n", "", 1)},
		"Another": {[]kpt.Function{{Image: "c", Name: "o.0"}}, strings.Replace(text, "  - image: a # ours\n    name: o.0\n    unknown: kept\n", "  - image: c\n    name: o.0\n", 1)},
	} {
		k, err := kpt.ParseKptfile(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := k.ReplaceFunctions("mutators", ours, tc.front); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(tc.want, k.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A field that is set to its value does not count as changed. Changed fields can be read.
func TestKptfileChanged(t *testing.T) {
	const text = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: a\n  labels: {x: y}\ninfo:\n  readinessGates:\n  - conditionType: Z\nstatus:\n  conditions:\n  - {type: Z, status: \"True\"}\nupstreamLock: {type: git, git: {repo: r}}\n"
	conditions := []kpt.Condition{{Type: "Z", Status: "True"}}
	for name, tc := range map[string]struct {
		edit func(k *kpt.Kptfile) error
		want bool
	}{
		"SameGates": {func(k *kpt.Kptfile) error {
			return k.SetReadinessGates([]kpt.ReadinessGate{{ConditionType: "Z"}})
		}, false},
		"OtherGates": {func(k *kpt.Kptfile) error {
			return k.SetReadinessGates([]kpt.ReadinessGate{{ConditionType: "Y"}})
		}, true},
		"NoGates":        {func(k *kpt.Kptfile) error { return k.SetReadinessGates(nil) }, true},
		"SameConditions": {func(k *kpt.Kptfile) error { return k.SetConditions(conditions) }, false},
		"NoConditions":   {func(k *kpt.Kptfile) error { return k.SetConditions(nil) }, true},
		"NoPipeline": {func(k *kpt.Kptfile) error {
			return k.ReplaceFunctions("mutators", func(string) bool { return true }, nil)
		}, false},
		"SameLabels":  {func(k *kpt.Kptfile) error { return k.SetMetadata(map[string]string{"x": "y"}, nil) }, false},
		"OtherLabels": {func(k *kpt.Kptfile) error { return k.SetMetadata(map[string]string{"x": "z"}, nil) }, true},
		"Annotations": {func(k *kpt.Kptfile) error { return k.SetMetadata(k.Labels(), map[string]string{"a": "b"}) }, true},
		"Upstream": {func(k *kpt.Kptfile) error {
			return k.SetUpstream(kpt.Upstream{Type: "git"}, kpt.Upstream{Type: "git", Git: &kpt.GitUpstream{Repo: "r"}})
		}, true},
		"Read": {func(k *kpt.Kptfile) error { // the caller owns the result
			k.Labels()["x"], k.Conditions()[0].Status, k.ReadinessGates()[0].ConditionType, k.UpstreamLock().Git.Repo = "", "", "", ""
			return nil
		}, false},
	} {
		k, err := kpt.ParseKptfile(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := tc.edit(k); err != nil {
			t.Fatal(err)
		}
		if k.Changed() != tc.want {
			t.Errorf("%s: changed %t", name, k.Changed())
		}
		again, err := kpt.ParseKptfile(k.String())
		if err != nil {
			t.Fatal(err)
		}
		values := func(k *kpt.Kptfile) []any {
			return []any{k.Name(), k.Labels(), k.Annotations(), k.ReadinessGates(), k.Conditions(), k.UpstreamLock(), k.Pipeline()}
		}
		if diff := cmp.Diff(values(again), values(k)); diff != "" {
			t.Errorf("%s: the Kptfile differs after it is parsed again (-want +got):\n%s", name, diff)
		}
	}
}
