package resolve

import (
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// FromLock returns the packages of a Lock in the solver's form.
func FromLock(locked []pkgv1beta1.LockPackage) []Package {
	packages := make([]Package, 0, len(locked))
	for i := range locked {
		l := &locked[i]
		p := Package{Name: l.Name, Source: l.Source, Version: ParseVersion(l.Version)}
		p.APIVersion, p.Kind = identity(l.APIVersion, l.Kind, l.Type)
		for j := range l.Dependencies {
			p.Dependencies = append(p.Dependencies, FromDependency(&l.Dependencies[j]))
		}
		packages = append(packages, p)
	}
	return packages
}

// FromDependency returns a dependency in the solver's form.
func FromDependency(d *pkgv1beta1.Dependency) Dependency {
	converted := Dependency{Source: d.Package, Constraint: d.Constraints}
	converted.APIVersion, converted.Kind = identity(d.APIVersion, d.Kind, d.Type)
	return converted
}

// identity reads both forms in which a Lock names a kind.
func identity(apiVersion, kind *string, packageType *pkgv1beta1.PackageType) (version, name string) {
	if apiVersion != nil {
		version = *apiVersion
	}
	if kind != nil {
		name = *kind
	}
	if name == "" && packageType != nil && *packageType != "" {
		name = string(*packageType)
		if version == "" {
			version = pkgv1.GroupVersion.String()
		}
	}
	return version, name
}

// ToLock returns packages in the form of a Lock, in the same order.
func ToLock(packages []Package) []pkgv1beta1.LockPackage {
	locked := make([]pkgv1beta1.LockPackage, 0, len(packages))
	for i := range packages {
		p := &packages[i]
		l := pkgv1beta1.LockPackage{
			Name: p.Name, APIVersion: optional(p.APIVersion), Kind: optional(p.Kind), Source: p.Source,
			Version: p.Version.String(), Dependencies: make([]pkgv1beta1.Dependency, 0, len(p.Dependencies)),
		}
		for _, d := range p.Dependencies {
			l.Dependencies = append(l.Dependencies, pkgv1beta1.Dependency{
				Package: d.Source, APIVersion: optional(d.APIVersion), Kind: optional(d.Kind), Constraints: d.Constraint,
			})
		}
		locked = append(locked, l)
	}
	return locked
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
