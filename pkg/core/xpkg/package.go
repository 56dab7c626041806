package xpkg

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// MetaGroup is the API group of the object that describes a package in its package.yaml.
const MetaGroup = "meta.pkg.crossplane.io"

// Package is the content of a package.yaml.
type Package struct {
	Meta
	// Objects are all objects except the one that describes the package, in the order of
	// package.yaml.
	Objects []*unstructured.Unstructured
}

// Installed returns the objects that are installed. A Function has none: its
// CustomResourceDefinitions describe its input and nothing else.
func (p *Package) Installed() []*unstructured.Unstructured {
	if p.Kind == pkgv1.KindFunction {
		return nil
	}
	return p.Objects
}

// Meta describes a package.
type Meta struct {
	// APIVersion is meta.pkg.crossplane.io with a version.
	APIVersion string
	// Kind is Provider, Configuration or Function.
	Kind        string
	Name        string
	Labels      map[string]string
	Annotations map[string]string
	// Crossplane is the range of versions of Crossplane that the package supports; "" is any.
	Crossplane string
	// Dependencies are the packages that this one requires.
	Dependencies []Dependency
	Capabilities []string
}

// Dependency is a package that another one requires.
type Dependency struct {
	// Source is the repository of the package.
	Source string
	// APIVersion and Kind are those of the object that installs it, such as pkg.crossplane.io/v1
	// and Provider.
	APIVersion string
	Kind       string
	// Constraint is a range of semantic versions, or a digest. It is not checked.
	Constraint string
}

// payload are the versions of each kind that packages of a kind may contain.
var payload = map[string]map[groupKind][]string{
	pkgv1.KindProvider: {
		{"apiextensions.k8s.io", "CustomResourceDefinition"}:               {"v1"},
		{"apiextensions.crossplane.io", "ManagedResourceDefinition"}:       {"v1alpha1"},
		{"admissionregistration.k8s.io", "ValidatingWebhookConfiguration"}: {"v1"},
		{"admissionregistration.k8s.io", "MutatingWebhookConfiguration"}:   {"v1"},
	},
	pkgv1.KindConfiguration: {
		{"apiextensions.crossplane.io", "CompositeResourceDefinition"}:     {"v1", "v2"},
		{"apiextensions.crossplane.io", "Composition"}:                     {"v1"},
		{"apiextensions.crossplane.io", "ManagedResourceActivationPolicy"}: {"v1alpha1"},
		{"ops.crossplane.io", "Operation"}:                                 {"v1alpha1"},
		{"ops.crossplane.io", "CronOperation"}:                             {"v1alpha1"},
		{"ops.crossplane.io", "WatchOperation"}:                            {"v1alpha1"},
	},
	pkgv1.KindFunction: {
		{"apiextensions.k8s.io", "CustomResourceDefinition"}: {"v1"},
	},
}

type groupKind struct{ group, kind string }

var customResourceDefinition = groupKind{"apiextensions.k8s.io", "CustomResourceDefinition"}

// metaVersions are the versions of MetaGroup that each kind has.
var metaVersions = map[string][]string{
	pkgv1.KindProvider:      {"v1", "v1alpha1"},
	pkgv1.KindConfiguration: {"v1", "v1alpha1"},
	pkgv1.KindFunction:      {"v1", "v1beta1"},
}

// allowed returns an error if packages of a kind may not contain an object.
func allowed(pkg string, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	found := groupKind{gvk.Group, gvk.Kind}
	versions, ok := payload[pkg][found]
	switch {
	case ok && slices.Contains(versions, gvk.Version):
		return nil
	case ok && found == customResourceDefinition:
		return Invalidf("%s %q has apiVersion %s, which API servers no longer know: convert it to apiextensions.k8s.io/v1", gvk.Kind, o.GetName(), o.GetAPIVersion())
	case ok:
		return Invalidf("%s %q has apiVersion %s: the versions %q are known", gvk.Kind, o.GetName(), o.GetAPIVersion(), versions)
	}
	return Invalidf("%s %q of %s: a %s may not contain this kind", gvk.Kind, o.GetName(), o.GetAPIVersion(), pkg)
}
