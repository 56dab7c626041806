package crdcheck

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Equivalent checks whether the CRDs of one package can replace those of another: all are there,
// and all served and stored versions stay. These findings are errors, and hard ones where objects
// would become unreadable. Breaking changes of schemas are warnings: a Checker decides about them
// with the objects.
func Equivalent(before, after []*apiextensionsv1.CustomResourceDefinition) []Finding {
	replacements := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, crd := range after {
		replacements[crd.Name] = crd
	}
	var findings []Finding
	for _, crd := range before {
		replacement := replacements[crd.Name]
		if replacement == nil {
			findings = append(findings, Finding{Reason: SchemaIncompatible, CRD: crd.Name, What: "the replacement does not have this CRD"})
			continue
		}
		findings = append(findings, equivalent(crd, replacement)...)
	}
	return findings
}

func equivalent(before, after *apiextensionsv1.CustomResourceDefinition) []Finding {
	findings := lostStoredVersions(before, after)
	stored, served := storedVersions(before), servedVersions(after)
	for _, name := range servedVersions(before) {
		if slices.Contains(served, name) || slices.Contains(stored, name) && versionOf(&after.Spec, name) == nil {
			continue
		}
		findings = append(findings, Finding{
			Reason: SchemaIncompatible, CRD: after.Name, Version: name, What: fmt.Sprintf("the replacement does not serve version %s", name),
		})
	}
	for _, change := range Compare(before, after) {
		switch {
		case !change.Breaking, change.Kind == VersionRemoved, change.Kind == StoredVersionRemoved, change.Kind == ServedVersionRemoved:
			continue
		default:
			findings = append(findings, Finding{
				Reason: SchemaIncompatible, Warning: change.Kind != ScopeChanged && change.Kind != KindChanged,
				CRD: after.Name, Version: change.Version, Path: change.Path, What: change.Describe(),
			})
		}
	}
	return findings
}
