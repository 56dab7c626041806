package crdcheck

import (
	"context"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A Transition is what one CRD changes. It can be shared: it does not change after NewTransition,
// so that one Transition serves all destinations whose CRD and stored versions are the same.
type Transition struct {
	CRD string
	// Changes are all changes, also those that break nothing.
	Changes []Change
	// Refusals are hard errors: the API server would not accept the new CRD.
	Refusals []Finding

	before, after *apiextensionsv1.CustomResourceDefinition // before is nil for a new CRD
	versions      []string                                  // new versions that objects can violate
	oldSchemas    schemas
	newSchemas    schemas
}

// A schemas has the validators of all versions of a CRD. Each is compiled when it is first needed.
type schemas map[string]func() (*validator, error)

// get returns nil if there is no such version.
func (s schemas) get(version string) (*validator, error) {
	compile, defined := s[version]
	if !defined {
		return nil, nil
	}
	return compile()
}

func schemasOf(crd *apiextensionsv1.CustomResourceDefinition) schemas {
	all := schemas{}
	if crd == nil {
		return all
	}
	for i := range crd.Spec.Versions {
		version := &crd.Spec.Versions[i]
		all[version.Name] = sync.OnceValues(func() (*validator, error) { return newValidator(crd, version) })
	}
	return all
}

// NewTransition compares a CRD with the one that replaces it. The old CRD is nil if there is none.
// It keeps both; they must not change afterwards.
func NewTransition(ctx context.Context, before, after *apiextensionsv1.CustomResourceDefinition) *Transition {
	t := &Transition{CRD: after.Name, before: before, after: after}
	if before != nil {
		if Hash(before) == Hash(after) {
			return t
		}
		t.Changes = compareDifferent(before, after)
	}
	t.Refusals = refusals(ctx, before, after)
	t.versions = t.affected()
	t.oldSchemas, t.newSchemas = schemasOf(before), schemasOf(after)
	return t
}

// NeedsObjects reports whether existing objects decide about the changes. If not, none need to be
// read. Objects of a new CRD need not be read where the CRD did not exist.
func (t *Transition) NeedsObjects() bool { return len(t.versions) > 0 }

// NeedsApplied reports whether the objects that are applied to a cluster must be checked there.
// They are also if the CRD is new in the cluster, or serves a version no longer.
func (t *Transition) NeedsApplied() bool {
	return t.NeedsObjects() || t.before == nil || slices.ContainsFunc(t.Changes, func(change Change) bool {
		return change.Breaking && (change.Kind == VersionRemoved || change.Kind == ServedVersionRemoved)
	})
}

// ReadVersions returns the versions, served now, in which all objects should be read and given to a
// Checker. If nothing will be converted one is enough: the one in which they are stored, if it is
// served.
func (t *Transition) ReadVersions() []string {
	if !t.NeedsObjects() || t.before == nil {
		return nil
	}
	served := servedVersions(t.before)
	if convertsNothing(&t.after.Spec) {
		if storage := storageVersion(&t.before.Spec); slices.Contains(served, storage) {
			return []string{storage}
		}
		return served[:min(1, len(served))]
	}
	return slices.DeleteFunc(served, func(name string) bool { return !slices.Contains(t.versions, name) })
}

func servedVersions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Served {
			names = append(names, crd.Spec.Versions[i].Name)
		}
	}
	return names
}

// affected returns the versions of the new CRD whose schema can break objects.
func (t *Transition) affected() []string {
	var names []string
	for i := range t.Changes {
		change := &t.Changes[i]
		if !change.Breaking {
			continue
		}
		switch {
		case change.Version != "":
			if change.ofSchema() {
				names = append(names, change.Version)
			}
		case change.Kind == PreserveUnknownRemoved, change.Kind == ConversionChanged:
			names = append(names, servedVersions(t.after)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ofSchema reports whether an object can violate the change.
func (c *Change) ofSchema() bool {
	switch c.Kind {
	case VersionAdded, VersionRemoved, StoredVersionRemoved, ServedVersionRemoved, SubresourceChanged, SelectableFieldsChanged:
		return false
	default:
		return c.Version != ""
	}
}
