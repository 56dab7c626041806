package functions_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists errors and results of functions, which users read in PackageRevisionResources and
// in the CLI.
func TestTexts(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: n\nspec:\n  containers:\n  - name: c\n    image: nginx:1 # kpt-set: nginx:${tag}\n"
	const replacements = "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nreplacements:\n"
	var texts []golden.Text
	for _, tc := range []struct{ image, config, in string }{
		{"nginx:1", "", pod},
		{"set-labels@sha256:abc", "", pod},
		{"set-namespace:v0.3.2", "", pod},
		{"set-labels:v0.2", "", pod},
		{"set-labels:v0.2", data("tier: db"), pod},
		{"set-labels:v0.2", "kind: SetAnnotations", pod},
		{"set-labels:v0.2", "apiVersion: fn.kpt.dev/v9\nkind: SetLabels", pod},
		{"set-namespace:v0.4", data("namespace: a", "other: b"), pod},
		{"set-namespace:v0.4", data("namespace: x"), "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n"},
		{"set-namespace:v0.4", data("namespace: x"), pod},
		{"set-image:v0.1", data("name: nginx", "newTag: a", "digest: b"), pod},
		{"set-image:v0.1", data("name: nginx", "newTag: '2'"), pod},
		{"apply-setters:v0.2", data("tag: '2'"), pod},
		{"apply-setters:v0.2", data("other: '2'"), pod},
		{"delete-resources:v0.1", "apiVersion: fn.kpt.dev/v1alpha1\nkind: DeleteResources\nselectors: [{}]\n", pod},
		{"delete-annotations:v0.1", data("annotationKeys: ''"), pod},
		{"ensure-name-substring:v0.2", data("prepend: a", "append: b"), pod},
		{"search-replace:v0.2", data("put-value: a"), pod},
		{"search-replace:v0.2", data("by-path: a[x]"), pod},
		{"search-replace:v0.2", data("by-file-path: 'a{b'"), pod},
		{"apply-replacements:v0.1", replacements + "- source: {kind: Service}\n  targets: [{select: {}}]\n", pod},
		{"apply-replacements:v0.1", replacements + "- source: {kind: Pod}\n  targets: [{select: {kind: Pod}, fieldPaths: [spec.x]}]\n", pod},
		{"apply-replacements:v0.1", replacements + "- source: {kind: Pod, fieldPath: spec.x}\n  targets: [{select: {kind: Pod}}]\n", pod},
		{"apply-replacements:v0.1", replacements + "- source: {kind: Pod, options: {delimiter: '-', index: 5}}\n  targets: [{select: {kind: Pod}}]\n", pod},
		{"upsert-resource:v0.2", "", pod},
		{"upsert-resource:v0.2", "kind: Pod", pod},
		{"kubeconform:v0.1", data("strict: maybe"), pod},
		{"kubeconform:v0.1", "", "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: 1}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\n"},
		{"starlark:v0.5", data("source: fail('no replicas')"), pod},
		{"starlark:v0.5", data("source: load('http.star', 'http')"), pod},
		{"starlark:v0.5", data(`source: ctx.resource_list["items"] = 1`), pod},
		{"starlark:v0.5", data("x: y"), pod},
	} {
		out, err := functions.Run(tc.image, functions.Input{Items: items(t, "pod.yaml", tc.in), Config: config(tc.config)})
		var lines []string
		if err != nil {
			lines = append(lines, "error: "+err.Error())
		}
		for _, r := range out.Results {
			line := r.Severity + ": "
			if r.Field != nil {
				line += r.Field.Path + ": "
			}
			lines = append(lines, line+r.Message)
		}
		heading := strings.TrimSpace(tc.image + " " + strings.ReplaceAll(strings.TrimSpace(tc.config), "\n", "; "))
		texts = append(texts, golden.Text{Heading: heading, Text: strings.Join(lines, "\n")})
	}
	golden.Texts(t, texts...)
}
