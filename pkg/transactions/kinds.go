package transactions

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// Kind is a kind of packages.
type Kind struct {
	// Name is Provider, Configuration or Function.
	Name string
	// RevisionName is the kind of the revisions.
	RevisionName string
	// Packages and Revisions are the resources.
	Packages, Revisions schema.GroupVersionResource
}

// Kinds are all kinds of packages.
var Kinds = []Kind{
	{pkgv1.KindProvider, "ProviderRevision", pkgv1.Providers, pkgv1.ProviderRevisions},
	{pkgv1.KindConfiguration, "ConfigurationRevision", pkgv1.Configurations, pkgv1.ConfigurationRevisions},
	{pkgv1.KindFunction, "FunctionRevision", pkgv1.Functions, pkgv1.FunctionRevisions},
}

// KindOf returns the kind of that name, and whether there is one.
func KindOf(name string) (Kind, bool) {
	for _, kind := range Kinds {
		if kind.Name == name {
			return kind, true
		}
	}
	return Kind{}, false
}

// Ref identifies a package.
type Ref struct {
	// Kind is Provider, Configuration or Function.
	Kind string
	Name string
}

// String returns the package as users write it: "Provider/aws".
func (r Ref) String() string { return r.Kind + "/" + r.Name }
