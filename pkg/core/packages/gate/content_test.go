package gate_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

const (
	kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n"
	crd     = "apiVersion: apiextensions.k8s.io/v1\nkind: %s\nmetadata:\n  name: buckets.example.org%s\nspec: {group: example.org}\n"
	bucket  = "apiVersion: example.org/v1\nkind: Bucket\nmetadata: {name: mine}\n"
)

func requires(list string) string {
	return kptfile + "  annotations:\n    pkg.crossplane.io/depends-on: |\n      " + list + "\n"
}

func TestNeeded(t *testing.T) {
	t.Parallel()
	definition := fmt.Sprintf(crd, "CustomResourceDefinition", "")
	for name, tc := range map[string]struct {
		files kpt.Files
		want  bool
	}{
		"Nothing":           {kpt.Files{"Kptfile": kptfile, "a.yaml": bucket}, false},
		"CRD":               {kpt.Files{"Kptfile": kptfile, "a.yaml": bucket, "b/crd.yaml": definition}, true},
		"InAList":           {kpt.Files{"Kptfile": kptfile, "a.json": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b.c"}}]}`}, true},
		"Escaped":           {kpt.Files{"Kptfile": kptfile, "a.yaml": fmt.Sprintf(crd, `"CustomResource\x44efinition"`, "")}, true},
		"BesideWhatIsWrong": {kpt.Files{"Kptfile": kptfile, "a.yaml": "kind: Values\n", "b.yaml": definition}, true},
		"OnlyMentioned":     {kpt.Files{"Kptfile": kptfile, "a.yaml": "# needs a CustomResourceDefinition\n" + bucket}, false},
		"AnotherGroup":      {kpt.Files{"Kptfile": kptfile, "a.yaml": "apiVersion: example.org/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n"}, false},
		"LocalConfig":       {kpt.Files{"Kptfile": kptfile, "a.yaml": fmt.Sprintf(crd, "CustomResourceDefinition", "\n  annotations: {config.kubernetes.io/local-config: 'true'}")}, false},
		"NoManifest":        {kpt.Files{"Kptfile": kptfile, "a.md": definition}, false},
		"Dependencies":      {kpt.Files{"Kptfile": requires("[{provider: example.org/org/s3, version: v1}]")}, true},
		"Malformed":         {kpt.Files{"Kptfile": requires("nothing")}, true},
		"OfASubpackage":     {kpt.Files{"Kptfile": kptfile, "sub/Kptfile": requires("[]")}, false},
	} {
		if got := gate.Needed(tc.files); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	files := kpt.Files{"a.yaml": bucket, "crd.yaml": fmt.Sprintf(crd, "CustomResourceDefinition", "")}
	for name, tc := range map[string]struct {
		kptfile string
		want    []xpkg.Dependency
		wantErr string
	}{
		"None": {kptfile: kptfile},
		"Both": {
			kptfile: requires(`[{apiVersion: pkg.crossplane.io/v1, kind: Function, package: example.org/org/f, version: ">=v1"}, {provider: example.org/org/s3}, {provider: example.org/org/s3}]`),
			want: []xpkg.Dependency{
				{Source: "example.org/org/f", APIVersion: "pkg.crossplane.io/v1", Kind: "Function", Constraint: ">=v1"},
				{Source: "example.org/org/s3", APIVersion: "pkg.crossplane.io/v1", Kind: "Provider"},
			},
		},
		"NoList":       {kptfile: requires("nothing"), wantErr: "Kptfile: metadata.annotations[pkg.crossplane.io/depends-on]: must be a list of objects with apiVersion, kind, package and version"},
		"UnknownField": {kptfile: requires("[{provider: example.org/a/b, release: v1}]"), wantErr: `Kptfile: metadata.annotations[pkg.crossplane.io/depends-on]: unknown field "release"`},
		"NoPackage":    {kptfile: requires("[{provider: example.org/a/b}, {version: v1}]"), wantErr: "Kptfile: metadata.annotations[pkg.crossplane.io/depends-on]: [1]: names no package: apiVersion, kind and package are required"},
		"Constraint":   {kptfile: requires("[{provider: example.org/a/b, version: newest}]"), wantErr: `Kptfile: metadata.annotations[pkg.crossplane.io/depends-on]: example.org/a/b: parse constraint "newest": neither a range of versions nor a digest`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := kpt.Files{"Kptfile": tc.kptfile}
			maps.Copy(all, files)
			content, err := gate.Read(all)
			if tc.wantErr != "" {
				if err == nil || err.Error() != tc.wantErr || !xpkg.IsInvalid(err) {
					t.Errorf("error %v\nwant %s", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, content.Dependencies); diff != "" {
				t.Error(diff)
			}
			if len(content.CRDs) != 1 || content.CRDs[0].GetName() != "buckets.example.org" || len(content.Objects) != 1 || content.Objects[0].GetName() != "mine" {
				t.Errorf("%v, %v", content.CRDs, content.Objects)
			}
		})
	}
}
