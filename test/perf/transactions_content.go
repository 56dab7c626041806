package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/test/testxpkg"
)

// definition returns a CRD as generated providers have it: what is desired, how it begins and what
// is observed have the same fields, with descriptions. A later edition has other descriptions.
func definition(group, kind string, fields, edition int) *unstructured.Unstructured {
	crd := testxpkg.CRD(group, kind)
	part := func() map[string]any {
		properties := map[string]any{}
		for n := range fields {
			properties[fmt.Sprintf("field%03d", n)] = field(n)
		}
		return map[string]any{"type": "object", "properties": properties}
	}
	schema := map[string]any{
		"type": "object", "description": fmt.Sprintf("%s is managed by edition %d of its provider.", kind, edition),
		"properties": map[string]any{
			"spec": map[string]any{"type": "object", "properties": map[string]any{
				"size": size(edition), "forProvider": part(), "initProvider": part(),
			}},
			"status": map[string]any{"type": "object", "properties": map[string]any{"atProvider": part()}},
		},
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	version["schema"] = map[string]any{"openAPIV3Schema": schema}
	version["subresources"] = map[string]any{"status": map[string]any{}}
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions") // its parents are maps
	return crd
}

// size is a field whose bound each edition lowers, so objects that exist must be validated.
func size(edition int) map[string]any {
	return map[string]any{"type": "integer", "maximum": int64(1_000_000 - edition)}
}

func field(n int) map[string]any {
	description := fmt.Sprintf("Number %d of the fields of the external resource. It is changed by the provider when the desired state changes.", n)
	switch n % 4 {
	case 0:
		return map[string]any{"type": "array", "description": description, "items": map[string]any{"type": "string"}}
	case 1:
		return map[string]any{"type": "object", "description": description, "additionalProperties": map[string]any{"type": "string"}}
	}
	return map[string]any{"type": "string", "description": description}
}

// groupOf returns the API group of a provider.
func groupOf(provider string) string { return provider + ".perf.example.org" }

// provider returns a provider with CRDs, of which the first ones have an edition, and the others
// the first edition.
func (t *transactionStage) provider(name string, definitions, changed, edition int) *xpkg.Package {
	objects := make([]*unstructured.Unstructured, definitions)
	for n := range objects {
		of := 0
		if n < changed {
			of = edition
		}
		objects[n] = definition(groupOf(name), fmt.Sprintf("Kind%03d", n), t.o.fields, of)
	}
	return testxpkg.Provider(name, objects...)
}

const (
	// levels is how deep the tree is, and treeFields the number of fields of its CRDs.
	levels     = 20
	treeFields = 5
)

// pushTree pushes packages of which each requires two of the next level, and returns the name of
// the first one, which requires all of the first level. Every second level has providers with a
// CRD, the others have none.
func (t *transactionStage) pushTree(ctx context.Context) (root string, err error) {
	done := step("push %d packages", t.o.packages)
	defer done()
	width := max(1, t.o.packages/levels)
	name := func(level, n int) string { return fmt.Sprintf("level-%02d-%02d", level, n%width) }
	kind := func(level int) string {
		if level%2 == 0 {
			return pkgv1.KindConfiguration
		}
		return pkgv1.KindProvider
	}
	requires := func(p *xpkg.Package, level, n int) {
		testxpkg.Requires(p, kind(level), t.registry.Source("tree/"+name(level, n)), ">=v1.0.0")
	}
	for level := range levels {
		for n := range width {
			pkg := testxpkg.Configuration(name(level, n))
			if kind(level) == pkgv1.KindProvider {
				pkg = testxpkg.Provider(name(level, n), definition(groupOf(name(level, n)), "Kind", treeFields, 0))
			}
			if level+1 < levels {
				requires(pkg, level+1, n)
				requires(pkg, level+1, n+1)
			}
			for _, tag := range []string{"v1.0.0", "v1.1.0"} {
				if _, err := t.registry.PushPackage(ctx, "tree/"+name(level, n), tag, pkg); err != nil {
					return "", err
				}
			}
		}
	}
	pkg := testxpkg.Configuration("root")
	for n := range width {
		requires(pkg, 0, n)
	}
	_, err = t.registry.PushPackage(ctx, "tree/root", "v1.0.0", pkg)
	return "root", err
}

// requestsText returns numbers of requests by what they are for, sorted.
func requestsText(counts map[string]int) string {
	return strings.ToLower(requests(counts).String())
}
