package crdcheck

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Normalize returns a copy with what two CRDs are compared by: the name and the spec. Defaults are
// set as the API server sets them, JSON values are in one form, and lists that are sets are sorted.
// The CA bundle of a conversion webhook is left out: it is injected in each cluster.
func Normalize(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	out := &apiextensionsv1.CustomResourceDefinition{}
	out.Name = crd.Name
	crd.Spec.DeepCopyInto(&out.Spec)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&out.Spec)
	if webhook := out.Spec.Conversion.Webhook; webhook != nil && webhook.ClientConfig != nil {
		webhook.ClientConfig.CABundle = nil
		if webhook.ClientConfig.Service != nil {
			apiextensionsv1.SetDefaults_ServiceReference(webhook.ClientConfig.Service)
		}
	}
	slices.Sort(out.Spec.Names.ShortNames)
	slices.Sort(out.Spec.Names.Categories)
	for _, version := range out.Spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			normalizeSchema(version.Schema.OpenAPIV3Schema)
		}
	}
	return out
}

// normalizeSchema changes the schema, which the caller owns.
func normalizeSchema(schema *apiextensionsv1.JSONSchemaProps) {
	eachSchema(schema, func(s *apiextensionsv1.JSONSchemaProps) {
		slices.Sort(s.Required)
		normalizeJSON(s.Default)
		normalizeJSON(s.Example)
		for i := range s.Enum {
			normalizeJSON(&s.Enum[i])
		}
	})
}

// normalizeJSON writes a JSON value with sorted keys and without white space.
func normalizeJSON(value *apiextensionsv1.JSON) {
	if value != nil {
		value.Raw = canonicalJSON(value.Raw)
	}
}

// canonicalJSON returns the value unchanged if it is malformed.
func canonicalJSON(raw []byte) []byte {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return raw
	}
	canonical, err := json.Marshal(value)
	if err != nil {
		return raw
	}
	return canonical
}

// eachSchema calls visit for the schema and all schemas inside it, parents first.
func eachSchema(s *apiextensionsv1.JSONSchemaProps, visit func(*apiextensionsv1.JSONSchemaProps)) {
	if s == nil {
		return
	}
	visit(s)
	if s.Items != nil {
		eachSchema(s.Items.Schema, visit)
		eachOf(s.Items.JSONSchemas, visit)
	}
	eachOf(s.AllOf, visit)
	eachOf(s.OneOf, visit)
	eachOf(s.AnyOf, visit)
	eachSchema(s.Not, visit)
	eachNamed(s.Properties, visit)
	eachNamed(s.PatternProperties, visit)
	eachNamed(s.Definitions, visit)
	if s.AdditionalProperties != nil {
		eachSchema(s.AdditionalProperties.Schema, visit)
	}
	if s.AdditionalItems != nil {
		eachSchema(s.AdditionalItems.Schema, visit)
	}
}

func eachOf(schemas []apiextensionsv1.JSONSchemaProps, visit func(*apiextensionsv1.JSONSchemaProps)) {
	for i := range schemas {
		eachSchema(&schemas[i], visit)
	}
}

func eachNamed(schemas map[string]apiextensionsv1.JSONSchemaProps, visit func(*apiextensionsv1.JSONSchemaProps)) {
	for name, s := range schemas {
		eachSchema(&s, visit)
		schemas[name] = s
	}
}
