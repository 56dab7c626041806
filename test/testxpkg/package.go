package testxpkg

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

// Provider returns a provider with CustomResourceDefinitions.
func Provider(name string, objects ...*unstructured.Unstructured) *xpkg.Package {
	return newPackage(pkgv1.KindProvider, name, objects)
}

// Configuration returns a configuration.
func Configuration(name string, objects ...*unstructured.Unstructured) *xpkg.Package {
	return newPackage(pkgv1.KindConfiguration, name, objects)
}

// Function returns a function.
func Function(name string, objects ...*unstructured.Unstructured) *xpkg.Package {
	return newPackage(pkgv1.KindFunction, name, objects)
}

func newPackage(kind, name string, objects []*unstructured.Unstructured) *xpkg.Package {
	return &xpkg.Package{Meta: xpkg.Meta{APIVersion: xpkg.MetaGroup + "/v1", Kind: kind, Name: name}, Objects: objects}
}

// Requires adds a dependency on a package of a kind, and returns the package.
func Requires(pkg *xpkg.Package, kind, source, constraint string) *xpkg.Package {
	pkg.Dependencies = append(pkg.Dependencies, xpkg.Dependency{Source: source, APIVersion: pkgv1.GroupVersion.String(), Kind: kind, Constraint: constraint})
	return pkg
}

// CRD returns a CustomResourceDefinition of a kind in a group, with one version v1 whose spec has
// fields of type string.
func CRD(group, kind string, fields ...string) *unstructured.Unstructured {
	plural := strings.ToLower(kind) + "s"
	properties := map[string]any{}
	for _, field := range fields {
		properties[field] = map[string]any{"type": "string", "description": fmt.Sprintf("%s of the %s.", field, kind)}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{
			"group": group, "scope": "Cluster",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind)},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": map[string]any{"type": "object", "properties": properties}},
				}},
			}},
		},
	}}
}
