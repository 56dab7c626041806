package crdcheck

import (
	"cmp"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// A schemaComparer collects the changes between two schemas, which are normalized.
type schemaComparer struct {
	changes []Change
}

func (c *schemaComparer) add(at *path, change Change) {
	change.Path = at.String()
	c.changes = append(c.changes, change)
}

// loosened adds that the constraint of a keyword is weaker or gone.
func (c *schemaComparer) loosened(at *path, facet, before, after string) {
	c.add(at, Change{Kind: Loosened, Facet: facet, Old: before, New: after})
}

// compare compares two schemas for the same value.
func (c *schemaComparer) compare(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	if !c.compareType(at, before, after) {
		return // nothing below can be compared
	}
	c.compareValues(at, before, after)
	c.compareBounds(at, before, after)
	c.compareExtensions(at, before, after)
	c.compareLogic(at, before, after)
	c.compareProperties(at, before, after)
	c.compareRequired(at, before, after)
	c.compareAdditional(at, before, after)
	c.compareItems(at, before, after)
	c.compareOther(at, before, after)
}

const intOrString = "integer or string"

func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	if s.XIntOrString {
		return intOrString
	}
	return s.Type
}

// compareType reports whether the old type is the new one or part of it.
func (c *schemaComparer) compareType(at *path, before, after *apiextensionsv1.JSONSchemaProps) bool {
	oldType, newType := typeOf(before), typeOf(after)
	switch {
	case oldType == newType:
		return true
	case newType == "",
		oldType == "integer" && newType == "number",
		(oldType == "integer" || oldType == "string") && newType == intOrString:
		c.loosened(at, "type", oldType, newType)
		return true
	default:
		c.add(at, Change{Kind: TypeChanged, Facet: "type", Old: oldType, New: newType, Breaking: true})
		return false
	}
}

func (c *schemaComparer) compareProperties(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		oldProperty := before.Properties[name]
		newProperty, kept := after.Properties[name]
		switch {
		case kept:
			c.compare(at.field(name), &oldProperty, &newProperty)
		case acceptsAnything(after) || implicit(at, after, name):
			c.loosened(at.field(name), "properties", typeOf(&oldProperty), "")
		default:
			c.add(at.field(name), Change{Kind: FieldRemoved, Old: typeOf(&oldProperty), Breaking: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.Properties)) {
		if _, had := before.Properties[name]; had {
			continue
		}
		property := after.Properties[name]
		change := Change{Kind: FieldAdded, New: typeOf(&property)}
		if slices.Contains(after.Required, name) && !slices.Contains(before.Required, name) {
			change.Kind, change.Facet, change.Breaking = NewRequiredField, "required", !hasDefault(&property)
		}
		// Objects may have the field already if the old schema accepted it as an unknown one.
		change.Breaking = change.Breaking || acceptsUnknown(before) || implicit(at, before, name) && constrains(&property)
		c.add(at.field(name), change)
	}
}

// implicit reports whether a property needs no schema: the API server adds it.
func implicit(at *path, parent *apiextensionsv1.JSONSchemaProps, name string) bool {
	return (at == nil || parent.XEmbeddedResource) && (name == "apiVersion" || name == "kind" || name == "metadata")
}

// constrains reports whether a schema says more than the type.
func constrains(s *apiextensionsv1.JSONSchemaProps) bool {
	return !apiequality.Semantic.DeepEqual(*s, apiextensionsv1.JSONSchemaProps{Type: s.Type, Description: s.Description})
}

func hasDefault(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.Default != nil && len(s.Default.Raw) > 0 && string(s.Default.Raw) != "null"
}

func preservesUnknown(s *apiextensionsv1.JSONSchemaProps) bool {
	return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
}

// additional returns the schema of keys that are not properties, and whether there can be such
// keys.
func additional(s *apiextensionsv1.JSONSchemaProps) (values *apiextensionsv1.JSONSchemaProps, allowed bool) {
	if s.AdditionalProperties == nil {
		return nil, false
	}
	return s.AdditionalProperties.Schema, s.AdditionalProperties.Schema != nil || s.AdditionalProperties.Allows
}

// acceptsUnknown reports whether an object can have keys that are not properties.
func acceptsUnknown(s *apiextensionsv1.JSONSchemaProps) bool {
	_, allowed := additional(s)
	return allowed || preservesUnknown(s)
}

// acceptsAnything reports whether these keys can have any value.
func acceptsAnything(s *apiextensionsv1.JSONSchemaProps) bool {
	values, allowed := additional(s)
	return values == nil && (allowed || preservesUnknown(s))
}

// compareRequired compares what is required of properties that are not new.
func (c *schemaComparer) compareRequired(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	for _, name := range after.Required {
		property, has := after.Properties[name]
		_, had := before.Properties[name]
		if slices.Contains(before.Required, name) || has && !had {
			continue
		}
		c.add(at.field(name), Change{Kind: RequiredAdded, Facet: "required", New: name, Breaking: !hasDefault(&property)})
	}
	for _, name := range before.Required {
		if !slices.Contains(after.Required, name) {
			c.loosened(at.field(name), "required", name, "")
		}
	}
}

func (c *schemaComparer) compareAdditional(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	oldValues, oldAllowed := additional(before)
	newValues, newAllowed := additional(after)
	switch {
	case oldValues != nil && newValues != nil:
		c.compare(at.each(), oldValues, newValues)
	case oldAllowed && !newAllowed && preservesUnknown(after),
		!oldAllowed && newAllowed && (newValues == nil || !preservesUnknown(before)),
		oldValues != nil && newAllowed:
		c.loosened(at, "additionalProperties", describeAdditional(before), describeAdditional(after))
	case oldAllowed != newAllowed, newValues != nil:
		c.add(at, Change{
			Kind: AdditionalPropertiesRestricted, Facet: "additionalProperties",
			Old: describeAdditional(before), New: describeAdditional(after), Breaking: true,
		})
	case before.AdditionalProperties == nil && after.AdditionalProperties != nil && !newAllowed:
		c.add(at, Change{Kind: AdditionalPropertiesRestricted, Facet: "additionalProperties", New: "false", Breaking: true})
	case before.AdditionalProperties != nil && after.AdditionalProperties == nil && !oldAllowed:
		c.loosened(at, "additionalProperties", "false", "")
	}
}

func describeAdditional(s *apiextensionsv1.JSONSchemaProps) string {
	switch values, allowed := additional(s); {
	case values != nil:
		return cmp.Or(typeOf(values), "anything")
	case allowed:
		return "anything"
	default:
		return ""
	}
}

func (c *schemaComparer) compareItems(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	oldItems, newItems := itemsOf(before), itemsOf(after)
	switch {
	case oldItems == nil && newItems == nil:
	case newItems == nil:
		c.loosened(at, "items", typeOf(oldItems), "")
	default:
		c.compare(at.each(), cmp.Or(oldItems, &apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: new(true)}), newItems)
	}
}

func itemsOf(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// compareOther finds changes of keywords that a structural schema cannot have. Old CRDs may.
func (c *schemaComparer) compareOther(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	other := func(s *apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		rest := apiextensionsv1.JSONSchemaProps{
			ID: s.ID, Schema: s.Schema, Ref: s.Ref, PatternProperties: s.PatternProperties, Dependencies: s.Dependencies,
			AdditionalItems: s.AdditionalItems, Definitions: s.Definitions,
		}
		if s.Items != nil && len(s.Items.JSONSchemas) > 0 {
			rest.Items = &apiextensionsv1.JSONSchemaPropsOrArray{JSONSchemas: s.Items.JSONSchemas}
		}
		return rest
	}
	if !apiequality.Semantic.DeepEqual(other(before), other(after)) {
		c.add(at, Change{Kind: OtherChanged, Facet: "the schema", Breaking: true})
	}
}
