package render_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors of renders, which users read in PackageRevisionResources, in
// conditions and in the CLI.
func TestTexts(t *testing.T) {
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" }
	labels := func(more string) string { return "  mutators:\n  - image: set-labels\n" + more }
	var texts []golden.Text
	for _, tc := range []struct {
		name, pipeline string
		files          kpt.Files
	}{
		{"exec", "  mutators:\n  - exec: sh\n", nil},
		{"no image", "  mutators:\n  - name: x\n", nil},
		{"a constraint of tags", labels("    tag: '>=v0.3'\n"), nil},
		{"an unknown field", labels("    configmap: {}\n"), nil},
		{"configPath and configMap", labels("    configPath: x.yaml\n    configMap: {a: b}\n"), nil},
		{"configPath outside of the package", labels("    configPath: ../x.yaml\n"), nil},
		{"configPath that does not exist", labels("    configPath: x.yaml\n"), nil},
		{"configPath with two objects", labels("    configPath: x.yaml\n"), kpt.Files{"x.yaml": object("a") + "---\n" + object("b")}},
		{"configPath without objects", labels("    configPath: x.yaml\n"), kpt.Files{"x.yaml": "a: b\n"}},
		{"a duplicate object", "", kpt.Files{"a.yaml": object("a"), "b.yaml": object("a")}},
		{"a duplicate field", "", kpt.Files{"a.yaml": object("a") + "data: {}\ndata: {}\n"}},
		{"half an object", "", kpt.Files{"a.yaml": "kind: ConfigMap\n"}},
		{"invalid YAML", "", kpt.Files{"a.yaml": "a: [\n"}},
		{"two validation errors", "  validators:\n  - image: kubeconform\n", kpt.Files{"a.yaml": object("a") + "data: {a: 1, b: 2}\n"}},
		{"the Kptfile is deleted", "  mutators:\n  - image: starlark\n    configMap:\n      source: ctx.resource_list['items'] = []\n", nil},
	} {
		files := kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n"}
		if tc.pipeline != "" {
			files["Kptfile"] += "pipeline:\n" + tc.pipeline
		}
		maps.Copy(files, tc.files)
		_, err := render.Render(files, functions.Run)
		if err == nil {
			t.Fatalf("%s: no error", tc.name)
		}
		texts = append(texts, golden.Text{Heading: tc.name, Text: strings.TrimSpace(err.Error())})
	}
	golden.Texts(t, texts...)
}
