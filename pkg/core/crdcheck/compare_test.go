package crdcheck_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

// TestSchemaChanges: each kind of change of a schema, with its path.
func TestSchemaChanges(t *testing.T) {
	type change struct {
		Path     string
		Kind     crdcheck.Kind
		Breaking bool
		What     string
	}
	for name, tc := range map[string]struct {
		before, after string // properties of the spec
		want          []change
	}{
		"Equal":        {"a: {type: string}", "a: {type: string, description: new}", nil},
		"FieldAdded":   {"", "a: {type: string}", []change{{"spec.a", crdcheck.FieldAdded, false, "spec.a is new"}}},
		"FieldRemoved": {"a: {type: string}", "", []change{{"spec.a", crdcheck.FieldRemoved, true, "spec.a is removed"}}},
		"FieldAddedToUnknown": {
			"o: {type: object, x-kubernetes-preserve-unknown-fields: true}",
			"o: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}",
			[]change{{"spec.o.a", crdcheck.FieldAdded, true, "spec.o.a is new"}},
		},
		"FieldRemovedFromUnknown": {
			"o: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: string}}}",
			"o: {type: object, x-kubernetes-preserve-unknown-fields: true}",
			[]change{{"spec.o.a", crdcheck.Loosened, false, "spec.o.a: properties is removed now, string before"}},
		},
		"NewRequiredField": {
			"o: {type: object, properties: {a: {type: string}}}",
			"o: {type: object, required: [b], properties: {a: {type: string}, b: {type: string}}}",
			[]change{{"spec.o.b", crdcheck.NewRequiredField, true, "spec.o.b is new and required"}},
		},
		"NewRequiredFieldWithDefault": {
			"o: {type: object, properties: {a: {type: string}}}",
			"o: {type: object, required: [b], properties: {a: {type: string}, b: {type: string, default: x}}}",
			[]change{{"spec.o.b", crdcheck.NewRequiredField, false, "spec.o.b is new and required"}},
		},
		"RequiredAdded": {
			"o: {type: object, properties: {a: {type: string}}}",
			"o: {type: object, required: [a], properties: {a: {type: string}}}",
			[]change{{"spec.o.a", crdcheck.RequiredAdded, true, "spec.o.a is required now"}},
		},
		"RequiredRemoved": {
			"o: {type: object, required: [a], properties: {a: {type: string}}}",
			"o: {type: object, properties: {a: {type: string}}}",
			[]change{{"spec.o.a", crdcheck.Loosened, false, "spec.o.a: required is removed now, a before"}},
		},
		"TypeChanged": {
			"a: {type: string}", "a: {type: integer}",
			[]change{{"spec.a", crdcheck.TypeChanged, true, "spec.a: type is integer now, string before"}},
		},
		"TypeAdded": {
			"a: {x-kubernetes-preserve-unknown-fields: true}", "a: {type: object, x-kubernetes-preserve-unknown-fields: true}",
			[]change{{"spec.a", crdcheck.TypeChanged, true, "spec.a: type is object now, unset before"}},
		},
		"IntegerToNumber": {
			"a: {type: integer}", "a: {type: number}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: type is number now, integer before"}},
		},
		"IntegerToIntOrString": {
			"a: {type: integer}", "a: {x-kubernetes-int-or-string: true}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: type is integer or string now, integer before"}},
		},
		"IntOrStringToString": {
			"a: {x-kubernetes-int-or-string: true}", "a: {type: string}",
			[]change{{"spec.a", crdcheck.TypeChanged, true, "spec.a: type is string now, integer or string before"}},
		},
		"FormatAdded": {
			"a: {type: string}", "a: {type: string, format: date-time}",
			[]change{{"spec.a", crdcheck.FormatChanged, true, "spec.a: format is date-time now, unset before"}},
		},
		"FormatWidened": {
			"a: {type: integer, format: int32}", "a: {type: integer, format: int64}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: format is int64 now, int32 before"}},
		},
		"EnumAdded": {
			"a: {type: string}", "a: {type: string, enum: [x, w]}",
			[]change{{"spec.a", crdcheck.EnumRestricted, true, `spec.a allows only "x", "w" now`}},
		},
		"EnumRestricted": {
			"a: {type: string, enum: [x, w]}", "a: {type: string, enum: [z, x]}",
			[]change{{"spec.a", crdcheck.EnumRestricted, true, `spec.a no longer allows "w"`}},
		},
		"EnumExtended": {
			"a: {type: string, enum: [x]}", "a: {type: string, enum: [z, x]}",
			[]change{{"spec.a", crdcheck.Loosened, false, `spec.a: enum is "z" now, unset before`}},
		},
		"EnumReordered": {"a: {type: string, enum: [x, w]}", "a: {type: string, enum: [w, x]}", nil},
		"MaximumAdded": {
			"a: {type: integer}", "a: {type: integer, maximum: 3}",
			[]change{{"spec.a", crdcheck.BoundTightened, true, "spec.a: maximum is 3 now, unset before"}},
		},
		"MaximumExclusive": {
			"a: {type: integer, maximum: 3}", "a: {type: integer, maximum: 3, exclusiveMaximum: true}",
			[]change{{"spec.a", crdcheck.BoundTightened, true, "spec.a: maximum is 3 (exclusive) now, 3 before"}},
		},
		"MinimumRaised": {
			"a: {type: integer, minimum: -3}", "a: {type: integer, minimum: -2}",
			[]change{{"spec.a", crdcheck.BoundTightened, true, "spec.a: minimum is -2 now, -3 before"}},
		},
		"MinimumLowered": {
			"a: {type: integer, minimum: 0}", "a: {type: integer, minimum: -2}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: minimum is -2 now, 0 before"}},
		},
		"MaxLengthAdded": {
			"a: {type: string}", "a: {type: string, maxLength: 5}",
			[]change{{"spec.a", crdcheck.BoundTightened, true, "spec.a: maxLength is 5 now, unset before"}},
		},
		"MaxLengthRemoved": {
			"a: {type: string, maxLength: 5}", "a: {type: string}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: maxLength is removed now, 5 before"}},
		},
		"MinLength": {
			"a: {type: string}", "a: {type: string, minLength: 1}",
			[]change{{"spec.a", crdcheck.BoundTightened, true, "spec.a: minLength is 1 now, unset before"}},
		},
		"Items": {
			"a: {type: array, items: {type: string}}", "a: {type: array, minItems: 1, maxItems: 4, uniqueItems: true, items: {type: string}}",
			[]change{
				{"spec.a", crdcheck.BoundTightened, true, "spec.a: maxItems is 4 now, unset before"},
				{"spec.a", crdcheck.BoundTightened, true, "spec.a: minItems is 1 now, unset before"},
				{"spec.a", crdcheck.BoundTightened, true, "spec.a: uniqueItems is true now, unset before"},
			},
		},
		"Properties": {
			"a: {type: object, minProperties: 1, maxProperties: 4}", "a: {type: object, minProperties: 2, maxProperties: 3}",
			[]change{
				{"spec.a", crdcheck.BoundTightened, true, "spec.a: maxProperties is 3 now, 4 before"},
				{"spec.a", crdcheck.BoundTightened, true, "spec.a: minProperties is 2 now, 1 before"},
			},
		},
		"MultipleOf": {
			"a: {type: integer, multipleOf: 2}", "a: {type: integer, multipleOf: 4}",
			[]change{{"spec.a", crdcheck.BoundTightened, true, "spec.a: multipleOf is 4 now, 2 before"}},
		},
		"MultipleOfDivisor": {
			"a: {type: integer, multipleOf: 4}", "a: {type: integer, multipleOf: 2}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: multipleOf is 2 now, 4 before"}},
		},
		"PatternAdded": {
			"a: {type: string}", "a: {type: string, pattern: ^a}",
			[]change{{"spec.a", crdcheck.PatternChanged, true, "spec.a: pattern is ^a now, unset before"}},
		},
		"PatternRemoved": {
			"a: {type: string, pattern: ^a}", "a: {type: string}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: pattern is removed now, ^a before"}},
		},
		"DefaultAdded": {
			"a: {type: string}", "a: {type: string, default: x}",
			[]change{{"spec.a", crdcheck.DefaultChanged, true, `spec.a: default is "x" now, unset before`}},
		},
		"DefaultSame": {"a: {type: object, default: {x: 1, y: 2}}", "a: {type: object, default: {y: 2, x: 1.0}}", nil},
		"NullableRemoved": {
			"a: {type: string, nullable: true}", "a: {type: string}",
			[]change{{"spec.a", crdcheck.NullableRemoved, true, "spec.a can no longer be null"}},
		},
		"NullableAdded": {
			"a: {type: string}", "a: {type: string, nullable: true}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: nullable is true now, unset before"}},
		},
		"AdditionalPropertiesRemoved": {
			"a: {type: object, additionalProperties: {type: string}}", "a: {type: object}",
			[]change{{"spec.a", crdcheck.AdditionalPropertiesRestricted, true, "spec.a no longer accepts arbitrary keys"}},
		},
		"AdditionalPropertiesGivenASchema": {
			"a: {type: object, additionalProperties: true}", "a: {type: object, additionalProperties: {type: string}}",
			[]change{{"spec.a", crdcheck.AdditionalPropertiesRestricted, true, "spec.a accepts only string values now"}},
		},
		"AdditionalPropertiesAdded": {
			"a: {type: object}", "a: {type: object, additionalProperties: {type: string}}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: additionalProperties is string now, unset before"}},
		},
		"AdditionalPropertiesOpened": {
			"a: {type: object, additionalProperties: {type: string}}", "a: {type: object, additionalProperties: true}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: additionalProperties is anything now, string before"}},
		},
		"AdditionalPropertiesChanged": {
			"a: {type: object, additionalProperties: {type: string}}", "a: {type: object, additionalProperties: {type: string, maxLength: 3}}",
			[]change{{"spec.a[*]", crdcheck.BoundTightened, true, "spec.a[*]: maxLength is 3 now, unset before"}},
		},
		"PreserveUnknownRemoved": {
			"a: {type: object, x-kubernetes-preserve-unknown-fields: true}", "a: {type: object}",
			[]change{{"spec.a", crdcheck.PreserveUnknownRemoved, true, "spec.a no longer keeps unknown fields"}},
		},
		"PreserveUnknownAdded": {
			"a: {type: object}", "a: {type: object, x-kubernetes-preserve-unknown-fields: true}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: x-kubernetes-preserve-unknown-fields is true now, unset before"}},
		},
		"EmbeddedResource": {
			"a: {type: object}", "a: {type: object, x-kubernetes-embedded-resource: true}",
			[]change{{"spec.a", crdcheck.EmbeddedResourceChanged, true, "spec.a: x-kubernetes-embedded-resource is true now, unset before"}},
		},
		"ListTypeSet": {
			"a: {type: array, items: {type: string}}", "a: {type: array, x-kubernetes-list-type: set, items: {type: string}}",
			[]change{{"spec.a", crdcheck.ListTypeChanged, true, "spec.a: x-kubernetes-list-type is set now, atomic before"}},
		},
		"ListTypeAtomic": {
			"a: {type: array, x-kubernetes-list-type: set, items: {type: string}}", "a: {type: array, items: {type: string}}",
			[]change{{"spec.a", crdcheck.ListTypeChanged, false, "spec.a: x-kubernetes-list-type is atomic now, set before"}},
		},
		"ListMapKeys": {
			"a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object}}",
			"a: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object}}",
			[]change{{"spec.a", crdcheck.ListTypeChanged, true, "spec.a: x-kubernetes-list-map-keys is k now, k, l before"}},
		},
		"MapType": {
			"a: {type: object}", "a: {type: object, x-kubernetes-map-type: atomic}",
			[]change{{"spec.a", crdcheck.MapTypeChanged, false, "spec.a: x-kubernetes-map-type is atomic now, granular before"}},
		},
		"CELRuleAdded": {
			"a: {type: integer}", "a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: too small}]}",
			[]change{{"spec.a", crdcheck.CELRuleAdded, true, "spec.a has a new rule: too small"}},
		},
		"CELRuleReworded": {
			"a: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}",
			"a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: too small}]}",
			nil,
		},
		"CELRuleRemoved": {
			"a: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}", "a: {type: integer}",
			[]change{{"spec.a", crdcheck.Loosened, false, "spec.a: x-kubernetes-validations is removed now, self > 1 before"}},
		},
		"AllOfAdded": {
			"a: {type: string}", "a: {type: string, allOf: [{pattern: a}]}",
			[]change{{"spec.a", crdcheck.LogicChanged, true, "spec.a: allOf is changed"}},
		},
		"AnyOfExtended": {
			"a: {type: string, anyOf: [{pattern: a}]}", "a: {type: string, anyOf: [{pattern: b}, {pattern: a}]}",
			[]change{{"spec.a", crdcheck.Loosened, false, `spec.a: anyOf is {"pattern":"a"}, {"pattern":"b"} now, {"pattern":"a"} before`}},
		},
		"AnyOfRestricted": {
			"a: {type: string, anyOf: [{pattern: a}, {pattern: b}]}", "a: {type: string, anyOf: [{pattern: b}]}",
			[]change{{"spec.a", crdcheck.LogicChanged, true, "spec.a: anyOf is changed"}},
		},
		"AnyOfReordered": {
			"a: {type: string, anyOf: [{pattern: a}, {pattern: b}]}", "a: {type: string, anyOf: [{pattern: b}, {pattern: a}]}", nil,
		},
		"OneOfExtended": {
			"a: {type: string, oneOf: [{pattern: a}]}", "a: {type: string, oneOf: [{pattern: a}, {pattern: b}]}",
			[]change{{"spec.a", crdcheck.LogicChanged, true, "spec.a: oneOf is changed"}},
		},
		"NotAdded": {
			"a: {type: string}", "a: {type: string, not: {pattern: a}}",
			[]change{{"spec.a", crdcheck.LogicChanged, true, "spec.a: not is changed"}},
		},
		"Items below": {
			"a: {type: array, items: {type: object, properties: {b: {type: string}}}}",
			"a: {type: array, items: {type: object, properties: {b: {type: integer}}}}",
			[]change{{"spec.a[*].b", crdcheck.TypeChanged, true, "spec.a[*].b: type is integer now, string before"}},
		},
		"StrangeName": {
			`"a.b": {type: string}`, "", []change{{`spec["a.b"]`, crdcheck.FieldRemoved, true, `spec["a.b"] is removed`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []change
			for _, c := range crdcheck.Compare(newCRD(t, "v1", spec(tc.before)), newCRD(t, "v1", spec(tc.after))) {
				if c.CRD != "widgets.example.com" || c.Version != "v1" || c.Stored != "" {
					t.Errorf("%+v is not of version v1", c)
				}
				got = append(got, change{c.Path, c.Kind, c.Breaking, c.Describe()})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestEveryKeyword: a change of any keyword that the type of schemas has is found. A new keyword of
// Kubernetes fails here.
func TestEveryKeyword(t *testing.T) {
	ignored := []string{"Description", "Title", "Example", "ExternalDocs"}
	needsLimit := map[string]string{"ExclusiveMaximum": "{type: number, maximum: 1}", "ExclusiveMinimum": "{type: number, minimum: 1}"}
	fields := reflect.TypeFor[schemaType]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		before := schemaType{}
		if base := needsLimit[name]; base != "" {
			before = *newSchema(t, base)
		}
		after := *before.DeepCopy()
		fill(t, reflect.ValueOf(&after).Elem().Field(i))
		if crdcheck.Hash(withSchema(t, before)) == crdcheck.Hash(withSchema(t, after)) {
			t.Errorf("%s is not hashed", name)
		}
		changes := crdcheck.Compare(withSchema(t, before), withSchema(t, after))
		if found := len(changes) > 0; found == slices.Contains(ignored, name) {
			t.Errorf("%s: %+v", name, changes)
		}
		changes = crdcheck.Compare(withSchema(t, after), withSchema(t, before))
		if found := len(changes) > 0; found == slices.Contains(ignored, name) {
			t.Errorf("%s removed: %+v", name, changes)
		}
	}
}

func withSchema(t testing.TB, schema schemaType) *crdType {
	t.Helper()
	crd := newCRD(t, "v1", "{}")
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &schema
	return crd
}

// fill sets a value that means something for every keyword.
func fill(t *testing.T, value reflect.Value) {
	t.Helper()
	switch value.Interface().(type) {
	case *apiextensionsv1.JSON:
		value.Set(reflect.ValueOf(&apiextensionsv1.JSON{Raw: []byte("1")}))
		return
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		value.Set(reflect.ValueOf(&apiextensionsv1.JSONSchemaPropsOrArray{Schema: &schemaType{Type: "string"}}))
		return
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		value.Set(reflect.ValueOf(&apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}))
		return
	case *schemaType:
		value.Set(reflect.ValueOf(&schemaType{Type: "string"}))
		return
	case apiextensionsv1.ValidationRules:
		value.Set(reflect.ValueOf(apiextensionsv1.ValidationRules{{Rule: "true"}}))
		return
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString("x")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int64:
		value.SetInt(1)
	case reflect.Float64:
		value.SetFloat(1)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		if value.Type().Elem().Kind() != reflect.Struct {
			fill(t, value.Elem())
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		if value.Type().Elem().Kind() == reflect.String {
			fill(t, value.Index(0))
		} else if value.Type().Elem() == reflect.TypeFor[apiextensionsv1.JSON]() {
			value.Index(0).Set(reflect.ValueOf(apiextensionsv1.JSON{Raw: []byte("1")}))
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(value.Type().Elem()))
	default:
		t.Fatalf("no value for %s", value.Type())
	}
}
