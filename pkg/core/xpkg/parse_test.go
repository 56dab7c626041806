package xpkg

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const provider = `apiVersion: meta.pkg.crossplane.io/v1
kind: Provider
metadata:
  name: provider-s3
  labels:
    pkg.crossplane.io/provider-family: provider-family-aws
  annotations:
    meta.crossplane.io/maintainer: jane
spec:
  capabilities: [safe-start]
  controller:
    image: registry.example/controller:v1
  crossplane:
    version: ">=v1.20.0-0"
  dependsOn:
  - apiVersion: pkg.crossplane.io/v1
    kind: Provider
    package: registry.example/org/family
    version: ">=v1.0.0"
  - function: Registry.example/org/function
    version: v1
  - function: registry.example/org/function
    version: v1
  - configuration: registry.example/org/configuration
    version: ` + digest + `
`

func crd(name string) string {
	return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: %s\nspec:\n  x: 1\n", name)
}

func object(apiVersion, kind, name string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n", apiVersion, kind, name)
}

func TestParse(t *testing.T) {
	want := &Package{
		Meta: Meta{
			APIVersion: "meta.pkg.crossplane.io/v1", Kind: "Provider", Name: "provider-s3", Capabilities: []string{"safe-start"}, Crossplane: ">=v1.20.0-0",
			Labels:      map[string]string{"pkg.crossplane.io/provider-family": "provider-family-aws"},
			Annotations: map[string]string{"meta.crossplane.io/maintainer": "jane"},
			Dependencies: []Dependency{
				{"registry.example/org/family", "pkg.crossplane.io/v1", "Provider", ">=v1.0.0"},
				{"registry.example/org/function", "pkg.crossplane.io/v1", "Function", "v1"},
				{"registry.example/org/configuration", "pkg.crossplane.io/v1", "Configuration", digest},
			},
		},
	}
	for _, name := range []string{"b.example", "a.example"} {
		want.Objects = append(want.Objects, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": name}, "spec": map[string]any{"x": int64(1)},
		}})
	}
	for name, stream := range map[string]string{
		"First":       provider + "---\n" + crd("b.example") + "---\n" + crd("a.example"),
		"Last":        "---\n" + crd("b.example") + "---\n" + crd("a.example") + "---\n" + provider,
		"Separators":  "# comment\n--- # comment\n---\n" + crd("b.example") + "...\n---   \n" + provider + "---\n\n---\n" + crd("a.example") + "---",
		"Inline":      provider + `--- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: b.example}, spec: {x: 1}}` + "\n---\n" + crd("a.example"),
		"InlineAtEnd": provider + "---\n" + crd("b.example") + `--- {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.example}, spec: {x: 1}}`,
		"Windows":     strings.ReplaceAll(provider+"---\n"+crd("b.example")+"---\n"+crd("a.example"), "\n", "\r\n"),
		"Twice":       provider + "---\n" + crd("b.example") + "---\n" + crd("a.example") + "---\n" + crd("b.example"),
		"LongLine":    provider + "---\n" + crd("b.example") + "# " + strings.Repeat("--- ", 100_000) + "\n---\n" + crd("a.example"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(iotest.HalfReader(strings.NewReader(stream)))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			var compact strings.Builder
			if err := Compact(&compact, iotest.HalfReader(strings.NewReader(stream))); err != nil {
				t.Fatal(err)
			}
			got, err = Parse(strings.NewReader(compact.String()))
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("compact: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestCompact: documents keep their numbers, which errors have. What is JSON or no YAML stays.
func TestCompact(t *testing.T) {
	const stream = "---\na: 1\n...\n# nothing\n---\n- [\n--- {\"b\": 123456789012345678}\n--- {c: 1}\n---\nd: 123456789012345678\n---\ne: \"---\""
	const want = "null\n---\n{\"a\":1}\n---\nnull\n---\n\n- [\n---\n {\"b\": 123456789012345678}\n---\n {c: 1}\n---\n{\"d\":123456789012345678}\n---\n{\"e\":\"---\"}\n"
	var got strings.Builder
	if err := Compact(&got, strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("compact (-want +got):\n%s", diff)
	}
}

func TestKindsOfObjects(t *testing.T) {
	meta := func(kind string) string { return object("meta.pkg.crossplane.io/v1", kind, "pkg") }
	for name, tc := range map[string]struct {
		meta, object string
		want         string // part of the error
	}{
		"ProviderCRD":      {meta("Provider"), crd("a.example"), ""},
		"ProviderMRD":      {meta("Provider"), object("apiextensions.crossplane.io/v1alpha1", "ManagedResourceDefinition", "a"), ""},
		"ProviderWebhook":  {meta("Provider"), object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "a"), ""},
		"ProviderMutates":  {meta("Provider"), object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "a"), ""},
		"ProviderOldCRD":   {meta("Provider"), object("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "a"), "convert it to apiextensions.k8s.io/v1"},
		"ProviderXRD":      {meta("Provider"), object("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "a"), `CompositeResourceDefinition "a" of apiextensions.crossplane.io/v1: a Provider may not contain this kind`},
		"ProviderSecret":   {meta("Provider"), object("v1", "Secret", "a"), `Secret "a" of v1: a Provider may not contain this kind`},
		"XRD":              {meta("Configuration"), object("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "a"), ""},
		"XRD2":             {meta("Configuration"), object("apiextensions.crossplane.io/v2", "CompositeResourceDefinition", "a"), ""},
		"XRD3":             {meta("Configuration"), object("apiextensions.crossplane.io/v3", "CompositeResourceDefinition", "a"), "are known"},
		"Composition":      {meta("Configuration"), object("apiextensions.crossplane.io/v1", "Composition", "a"), ""},
		"MRAP":             {meta("Configuration"), object("apiextensions.crossplane.io/v1alpha1", "ManagedResourceActivationPolicy", "a"), ""},
		"Operation":        {meta("Configuration"), object("ops.crossplane.io/v1alpha1", "Operation", "a"), ""},
		"CronOperation":    {meta("Configuration"), object("ops.crossplane.io/v1alpha1", "CronOperation", "a"), ""},
		"WatchOperation":   {meta("Configuration"), object("ops.crossplane.io/v1alpha1", "WatchOperation", "a"), ""},
		"ConfigurationCRD": {meta("Configuration"), crd("a.example"), "may not contain"},
		"FunctionCRD":      {meta("Function"), crd("a.example"), ""},
		"FunctionXRD":      {meta("Function"), object("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "a"), "may not contain"},
		"List":             {meta("Provider"), object("v1", "List", "a"), "may not contain"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(strings.NewReader(tc.meta + "---\n" + tc.object))
			if tc.want != "" {
				if !IsInvalid(err) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil || len(p.Objects) != 1 || len(p.Installed()) == 1 != (p.Kind != "Function") {
				t.Errorf("%v, %+v", err, p)
			}
		})
	}
}

func TestInvalidPackages(t *testing.T) {
	meta := object("meta.pkg.crossplane.io/v1", "Provider", "pkg")
	requires := func(text string) string { return meta + "spec:\n  dependsOn:\n  - {" + text + "}\n" }
	for name, tc := range map[string]struct{ stream, want string }{
		"Empty":             {"", "package.yaml has no object of meta.pkg.crossplane.io"},
		"NoMeta":            {crd("a"), "package.yaml has no object of meta.pkg.crossplane.io"},
		"TwoMetas":          {meta + "---\n" + meta, "more than one object of meta.pkg.crossplane.io"},
		"UnknownMeta":       {object("meta.pkg.crossplane.io/v1", "Bundle", "a"), `kind "Bundle" of meta.pkg.crossplane.io is not known`},
		"UnknownVersion":    {object("meta.pkg.crossplane.io/v9", "Provider", "a"), "meta.pkg.crossplane.io/v9"},
		"FunctionAlpha":     {object("meta.pkg.crossplane.io/v1alpha1", "Function", "a"), "meta.pkg.crossplane.io/v1alpha1"},
		"NoName":            {meta + "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n", "document 2: has no name"},
		"NoKind":            {meta + "---\napiVersion: v1\nmetadata: {name: x}\n", "document 2: has no kind"},
		"NoAPIVersion":      {meta + "---\nkind: A\nmetadata: {name: x}\n", "document 2: has no apiVersion"},
		"WrongAPIVersion":   {meta + "---\nkind: A\napiVersion: a/b/c\nmetadata: {name: x}\n", "document 2: "},
		"NameIsANumber":     {meta + "---\nkind: A\napiVersion: v1\nmetadata: {name: 1}\n", "document 2: has no name"},
		"MetaWithoutName":   {"kind: Provider\napiVersion: meta.pkg.crossplane.io/v1\n", "has no name"},
		"NotAnObject":       {meta + "---\n- a\n", "document 2: is not an object"},
		"NotYAML":           {meta + "---\na: b: c\n", "document 2: "},
		"AfterTheEnd":       {meta + "...\na: 1\n", "document 2: has no apiVersion"},
		"Different":         {meta + "---\n" + crd("a") + "---\n" + crd("a") + "  y: 2\n", `two different objects CustomResourceDefinition "a"`},
		"WrongType":         {meta + "spec:\n  dependsOn: x\n", `Provider "pkg": `},
		"NoRegistry":        {requires("provider: org/pkg, version: v1"), "spec.dependsOn[0]: parse repository \"org/pkg\": has no registry"},
		"WithTag":           {requires("provider: 'a.example/pkg:v1', version: v1"), "must be a repository without tag and digest"},
		"NoPackage":         {requires("version: v1"), "names no package"},
		"NoKindOfPackage":   {requires("apiVersion: pkg.crossplane.io/v1, package: a.example/pkg"), `kind ""`},
		"NoPackageOfKind":   {requires("apiVersion: pkg.crossplane.io/v1, kind: Provider"), "package is required"},
		"OtherGroup":        {requires("apiVersion: apps/v1, kind: Provider, package: a.example/pkg"), `apiVersion "apps/v1"`},
		"TwoPackages":       {requires("provider: a.example/pkg, function: a.example/pkg"), "must name one package only"},
		"BothForms":         {requires("provider: a.example/pkg, kind: Provider, package: a.example/pkg"), "must name one package only"},
		"TooManyRequired":   {requires(strings.Repeat("provider: a.example/pkg}\n  - {", maxDependencies) + "provider: a.example/pkg"), "spec.dependsOn has 501 entries, at most 500 are possible"},
		"TooManyDocuments":  {meta + strings.Repeat("---\n", MaxDocuments+1), "more than 20000 documents"},
		"TooLargeADocument": {meta + "---\n# " + strings.Repeat("x", MaxDocument) + "\n", "document 2 has more than 3 MiB"},
		"ManyAliases":       {meta + "---\n" + aliases(), "document 2: "},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Parse(strings.NewReader(tc.stream))
			if !IsInvalid(err) || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("got %+v, %v, want %q", p, err, tc.want)
			}
		})
	}
}

// aliases returns a document that has a very large size when its aliases are replaced.
func aliases() string {
	text := "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 12 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	return text
}

// TestSize: a package that is too large is an error, and not truncated.
func TestSize(t *testing.T) {
	line := "# " + strings.Repeat("x", 1<<20-3) + "\n"
	document := strings.NewReader(strings.Repeat(line, 2) + "---\n")
	repeated := readerFunc(func(p []byte) (int, error) {
		n, err := document.Read(p)
		if errors.Is(err, io.EOF) {
			_, _ = document.Seek(0, io.SeekStart)
			err = nil
		}
		return n, err
	})
	meta := strings.NewReader(object("meta.pkg.crossplane.io/v1", "Provider", "pkg") + "---\n")
	if _, err := Parse(io.MultiReader(meta, repeated)); !IsInvalid(err) || !strings.Contains(err.Error(), "more than 200 MiB") {
		t.Errorf("got %v", err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestErrorsOfTheReader are not about the package.
func TestErrorsOfTheReader(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Parse(io.MultiReader(strings.NewReader(provider), iotest.ErrReader(broken))); !errors.Is(err, broken) || IsInvalid(err) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(provider + "---\n" + crd("a")))
	f.Add([]byte("--- {}\n...\n---"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		p, err := Parse(strings.NewReader(string(stream)))
		if err != nil {
			if !IsInvalid(err) {
				t.Errorf("got %v", err)
			}
			return
		}
		if p.Name == "" || p.Kind == "" {
			t.Errorf("no name: %+v", p.Meta)
		}
	})
}

// BenchmarkParse reads a package with 900 CustomResourceDefinitions of the size of provider-aws.
func BenchmarkParse(b *testing.B) {
	stream := large(900)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := Parse(strings.NewReader(stream))
		if err != nil || len(p.Objects) != 900 {
			b.Fatal(err)
		}
	}
}

func large(n int) string {
	var text strings.Builder
	text.WriteString(provider)
	for i := range n {
		fmt.Fprintf(&text, "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: kinds%d.example.org\nspec:\n  group: example.org\n  scope: Cluster\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            type: object\n            properties:\n", i)
		for j := range 60 {
			fmt.Fprintf(&text, `              field%d:
                description: Field %d configures something that is described in a sentence of the usual length, which is cut to
                  lines of one hundred characters and has more than one of them.
                type: object
                properties:
                  name:
                    description: Name of the object.
                    type: string
                  count:
                    description: Count of something, which has a minimum.
                    minimum: 1
                    type: integer
                  policy:
                    default: Always
                    enum:
                    - Always
                    - Never
                    type: string
                required:
                - name
`, j, j)
		}
	}
	return text.String()
}
