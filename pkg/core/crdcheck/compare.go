package crdcheck

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Compare returns the changes from an old CRD to a new one: those of the CRD first, then those of
// the versions by name. It returns nil if Hash is equal for both. Descriptions, titles, examples,
// printer columns and the messages of CEL rules are not compared.
//
// The old CRD's status has the versions in which objects are stored; without status it is the
// storage version.
func Compare(before, after *apiextensionsv1.CustomResourceDefinition) []Change {
	if Hash(before) == Hash(after) {
		return nil
	}
	return compareDifferent(before, after)
}

func compareDifferent(before, after *apiextensionsv1.CustomResourceDefinition) []Change {
	c := &crdComparer{
		name: after.Name, before: &Normalize(before).Spec, after: &Normalize(after).Spec, stored: storedVersions(before),
	}
	c.compareSpec()
	for _, version := range c.versionNames() {
		c.compareVersion(version)
	}
	c.compareStored()
	return c.changes
}

// storedVersions returns the versions in which objects of an existing CRD may be stored.
func storedVersions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	if len(crd.Status.StoredVersions) > 0 {
		return crd.Status.StoredVersions
	}
	return []string{storageVersion(&crd.Spec)}
}

func storageVersion(spec *apiextensionsv1.CustomResourceDefinitionSpec) string {
	for i := range spec.Versions {
		if spec.Versions[i].Storage {
			return spec.Versions[i].Name
		}
	}
	return ""
}

// versionOf returns nil if the CRD does not have the version.
func versionOf(spec *apiextensionsv1.CustomResourceDefinitionSpec, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range spec.Versions {
		if spec.Versions[i].Name == name {
			return &spec.Versions[i]
		}
	}
	return nil
}

// schemaOf returns the schema that accepts everything if a version has none.
func schemaOf(version *apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
		return &apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}
	}
	return version.Schema.OpenAPIV3Schema
}

// convertsNothing reports whether versions differ in their apiVersion only.
func convertsNothing(spec *apiextensionsv1.CustomResourceDefinitionSpec) bool {
	return spec.Conversion == nil || spec.Conversion.Strategy == "" || spec.Conversion.Strategy == apiextensionsv1.NoneConverter
}

// A crdComparer compares two normalized CRDs.
type crdComparer struct {
	name          string
	before, after *apiextensionsv1.CustomResourceDefinitionSpec
	stored        []string // versions in which objects are stored
	changes       []Change
}

func (c *crdComparer) add(change Change) {
	change.CRD = c.name
	c.changes = append(c.changes, change)
}

// value adds a change of the CRD itself if the value differs.
func (c *crdComparer) value(kind Kind, at, before, after string, breaking bool) {
	if before == after {
		return
	}
	facet := at[strings.LastIndexByte(at, '.')+1:]
	c.add(Change{Path: at, Kind: kind, Facet: facet, Old: before, New: after, Breaking: breaking})
}

func (c *crdComparer) compareSpec() {
	before, after := c.before, c.after
	c.value(NamesChanged, "spec.group", before.Group, after.Group, true)
	c.value(ScopeChanged, "spec.scope", string(before.Scope), string(after.Scope), true)
	c.value(KindChanged, "spec.names.kind", before.Names.Kind, after.Names.Kind, true)
	c.value(KindChanged, "spec.names.listKind", before.Names.ListKind, after.Names.ListKind, true)
	c.value(NamesChanged, "spec.names.plural", before.Names.Plural, after.Names.Plural, true)
	c.value(NamesChanged, "spec.names.singular", before.Names.Singular, after.Names.Singular, false)
	c.value(NamesChanged, "spec.names.shortNames", list(before.Names.ShortNames), list(after.Names.ShortNames), false)
	c.value(NamesChanged, "spec.names.categories", list(before.Names.Categories), list(after.Names.Categories), false)

	toNone := !convertsNothing(before) && convertsNothing(after)
	c.value(ConversionChanged, "spec.conversion.strategy", string(before.Conversion.Strategy), string(after.Conversion.Strategy), toNone)
	c.value(ConversionChanged, "spec.conversion.webhook", encode(before.Conversion.Webhook), encode(after.Conversion.Webhook), false)
	c.value(StorageVersionChanged, "spec.versions.storage", storageVersion(before), storageVersion(after), false)
	if before.PreserveUnknownFields && !after.PreserveUnknownFields {
		c.value(PreserveUnknownRemoved, "spec.preserveUnknownFields", "true", "false", true)
	} else {
		c.value(Loosened, "spec.preserveUnknownFields",
			strconv.FormatBool(before.PreserveUnknownFields), strconv.FormatBool(after.PreserveUnknownFields), false)
	}
}

// versionNames returns the names of the versions of both CRDs, sorted.
func (c *crdComparer) versionNames() []string {
	var names []string
	for _, spec := range []*apiextensionsv1.CustomResourceDefinitionSpec{c.before, c.after} {
		for i := range spec.Versions {
			names = append(names, spec.Versions[i].Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *crdComparer) compareVersion(name string) {
	before, after := versionOf(c.before, name), versionOf(c.after, name)
	isStored := slices.Contains(c.stored, name)
	switch {
	case before == nil && after != nil && isStored:
		return // a status that is ahead of the spec
	case before == nil:
		c.add(Change{Version: name, Kind: VersionAdded})
		return
	case after == nil && isStored:
		c.add(Change{Version: name, Kind: StoredVersionRemoved, Breaking: true})
		return
	case after == nil:
		c.add(Change{Version: name, Kind: VersionRemoved, Breaking: before.Served})
		return
	case before.Served && !after.Served:
		c.add(Change{Version: name, Kind: ServedVersionRemoved, Breaking: true})
	case !before.Served && after.Served:
		c.add(Change{Version: name, Kind: VersionAdded, Facet: "served"})
	}
	c.compareSubresources(name, before, after)

	schemas := &schemaComparer{}
	schemas.compare(nil, schemaOf(before), schemaOf(after))
	used := before.Served || isStored // else no object was ever seen through this schema
	for _, change := range schemas.changes {
		change.Version = name
		change.Breaking = change.Breaking && used
		c.add(change)
	}
}

func (c *crdComparer) compareSubresources(name string, before, after *apiextensionsv1.CustomResourceDefinitionVersion) {
	oldSub, newSub := cmp.Or(before.Subresources, &apiextensionsv1.CustomResourceSubresources{}),
		cmp.Or(after.Subresources, &apiextensionsv1.CustomResourceSubresources{})
	for _, sub := range []struct{ facet, before, after string }{
		{"status", encode(oldSub.Status), encode(newSub.Status)},
		{"scale", encode(oldSub.Scale), encode(newSub.Scale)},
	} {
		if sub.before != sub.after {
			c.add(Change{
				Version: name, Path: "subresources." + sub.facet, Kind: SubresourceChanged, Facet: sub.facet,
				Old: sub.before, New: sub.after,
				// A status that becomes a subresource can no longer be written with the object.
				Breaking: sub.before != "" || sub.facet == "status",
			})
		}
	}
	oldFields, newFields := selectable(before), selectable(after)
	if !slices.Equal(oldFields, newFields) {
		removed := !subset(oldFields, newFields)
		c.add(Change{
			Version: name, Path: "selectableFields", Kind: SelectableFieldsChanged, Facet: "selectableFields",
			Old: list(oldFields), New: list(newFields), Breaking: removed,
		})
	}
}

func selectable(version *apiextensionsv1.CustomResourceDefinitionVersion) []string {
	var paths []string
	for _, field := range version.SelectableFields {
		paths = append(paths, field.JSONPath)
	}
	slices.Sort(paths)
	return paths
}

// compareStored compares the versions that will be served with those in which objects are stored.
// Without conversion an object that is stored in one version is served as it is in all others.
//
// What existing objects can violate is breaking. What only future objects can violate is reported
// as not breaking: a field that only one of two versions has is lost when a client writes the
// other. What was so before, and what the comparison of the version with itself finds, is not
// reported.
func (c *crdComparer) compareStored() {
	if !convertsNothing(c.after) {
		return
	}
	stored := slices.Clone(c.stored)
	if storage := storageVersion(c.after); !slices.Contains(stored, storage) {
		stored = append(stored, storage)
	}
	for i := range c.after.Versions {
		version := &c.after.Versions[i]
		if !version.Served {
			continue
		}
		known := c.identities(version.Name)
		for _, name := range stored {
			if name != version.Name {
				c.compareWithStored(version, name, known)
			}
		}
	}
}

func (c *crdComparer) compareWithStored(version *apiextensionsv1.CustomResourceDefinitionVersion, stored string, known map[[3]string]bool) {
	oldStored, oldVersion, newStored := versionOf(c.before, stored), versionOf(c.before, version.Name), versionOf(c.after, stored)
	before := map[[3]string]bool{}
	if oldStored != nil && oldVersion != nil && oldVersion.Served && convertsNothing(c.before) {
		for _, change := range breaking(schemaOf(oldStored), schemaOf(oldVersion)) {
			before[change.identity()] = true
		}
	}
	add := func(from *apiextensionsv1.CustomResourceDefinitionVersion, isBreaking bool) {
		if from == nil {
			return
		}
		for _, change := range breaking(schemaOf(from), schemaOf(version)) {
			if id := change.identity(); !known[id] && !before[id] {
				known[id] = true
				change.Version, change.Stored, change.Breaking = version.Name, stored, isBreaking
				c.add(change)
			}
		}
	}
	if slices.Contains(c.stored, stored) {
		add(oldStored, true)
	}
	add(newStored, false)
}

// identities returns what was found for a version so far.
func (c *crdComparer) identities(version string) map[[3]string]bool {
	known := map[[3]string]bool{}
	for i := range c.changes {
		if c.changes[i].Version == version {
			known[c.changes[i].identity()] = true
		}
	}
	return known
}

// breaking returns the breaking changes from one schema to another.
func breaking(before, after *apiextensionsv1.JSONSchemaProps) []Change {
	schemas := &schemaComparer{}
	schemas.compare(nil, before, after)
	return slices.DeleteFunc(schemas.changes, func(change Change) bool { return !change.Breaking })
}

// encode returns "" for a nil pointer.
func encode[T any](value *T) string {
	if value == nil {
		return ""
	}
	encoded, _ := json.Marshal(value) // plain structs of strings and numbers
	return string(encoded)
}

func list(items []string) string { return strings.Join(items, ", ") }

// subset reports whether all items are among others.
func subset(items, others []string) bool {
	return !slices.ContainsFunc(items, func(item string) bool { return !slices.Contains(others, item) })
}
