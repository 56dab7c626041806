package crdcheck

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A validator decides about objects of one version as the API server does when they are created.
type validator struct {
	schema     *apiextensionsv1.JSONSchemaProps
	values     validation.SchemaValidator
	structural *structuralschema.Structural // nil if an old CRD has a schema that is not structural
	prunes     bool
	rules      *cel.Validator // nil if there are none
}

func newValidator(
	crd *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion,
) (*validator, error) {
	schema := schemaOf(version).DeepCopy()
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema.DeepCopy(), internal, nil); err != nil {
		return nil, fmt.Errorf("convert schema of %q version %q: %w", crd.Name, version.Name, err)
	}
	values, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, fmt.Errorf("compile schema of %q version %q: %w", crd.Name, version.Name, err)
	}
	v := &validator{schema: schema, values: values}
	structural := structuralOf(internal)
	if structural == nil {
		return v, nil
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, fmt.Errorf("prune defaults of %q version %q: %w", crd.Name, version.Name, err)
	}
	v.structural, v.prunes = structural, !crd.Spec.PreserveUnknownFields
	v.rules = cel.NewValidator(withoutExpressions(structural), true, celconfig.PerCallLimit)
	return v, nil
}

// withoutExpressions returns a schema whose rules have no messageExpression. The author of a CRD
// need not be one who may read the objects, and an expression puts their values into messages.
func withoutExpressions(structural *structuralschema.Structural) *structuralschema.Structural {
	out := structural.DeepCopy()
	visitor := structuralschema.Visitor{Structural: func(s *structuralschema.Structural) bool {
		for i := range s.XValidations {
			s.XValidations[i].MessageExpression = ""
		}
		return len(s.XValidations) > 0
	}}
	visitor.Visit(out)
	return out
}

// structuralOf returns nil if the schema of an old CRD is not structural. Its objects are neither
// pruned, nor defaulted, nor checked by rules.
func structuralOf(schema *apiextensions.JSONSchemaProps) *structuralschema.Structural {
	structural, err := structuralschema.NewStructural(schema)
	if err != nil || len(structuralschema.ValidateStructural(nil, structural)) > 0 {
		return nil
	}
	return structural.DeepCopy() // it shares its defaults with the schema
}

// A violation is one thing that is wrong with one object.
type violation struct {
	kind   violationKind
	object string // path in the object
	detail string
	same   string // equal for two violations that are the same one under two schemas
}

type violationKind string

// Kinds of violations that one kind of change causes.
const (
	lost     violationKind = "lost" // a field that would be pruned
	required violationKind = "required"
	badType  violationKind = "type"
	badEnum  violationKind = "enum"
	badRule  violationKind = "rule"
	invalid  violationKind = "invalid"
)

// validate returns what is wrong with an object. It changes the object: it prunes and defaults it.
func (v *validator) validate(ctx context.Context, object map[string]any) []violation {
	var found []violation
	if v.structural != nil {
		if v.prunes {
			options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
			for _, at := range pruning.PruneWithOptions(object, v.structural, true, options) {
				found = append(found, violation{kind: lost, object: at, same: string(lost) + at})
			}
		}
		defaulting.PruneNonNullableNullsWithoutDefaults(object, v.structural)
		defaulting.Default(object, v.structural)
	}
	errs := validation.ValidateCustomResource(nil, object, v.values)
	if v.structural == nil {
		return append(found, violations(errs)...)
	}
	errs = append(errs, objectmeta.Validate(nil, object, v.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, v.structural, object)...)
	found = append(found, violations(errs)...)
	if v.rules != nil && !blocksRules(errs) {
		broken, _ := v.rules.Validate(ctx, nil, v.structural, object, nil, celconfig.RuntimeCELCostBudget)
		for _, e := range broken {
			found = append(found, violation{kind: badRule, object: e.Field, detail: e.Detail, same: string(badRule) + e.Field + e.Detail})
		}
	}
	return found
}

// blocksRules reports whether the API server would not evaluate the CEL rules.
func blocksRules(errs field.ErrorList) bool {
	for _, e := range errs {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		default:
		}
	}
	return false
}

var digits = regexp.MustCompile(`[0-9.]+`)

// violations converts the errors of the schema. Their values are left out: they can be
// confidential.
func violations(errs field.ErrorList) []violation {
	var found []violation
	for _, e := range errs {
		at, detail := cutPath(e)
		v := violation{kind: invalid, object: at, detail: detail}
		switch e.Type {
		case field.ErrorTypeRequired:
			v.kind = required
		case field.ErrorTypeTypeInvalid:
			v.kind = badType
			v.detail, _, _ = strings.Cut(v.detail, ": ") // what follows can be the value
		case field.ErrorTypeNotSupported:
			v.kind = badEnum
		default:
			// A limit that was missed before and is missed now is the same one, whatever it is.
			v.same = digits.ReplaceAllString(e.Detail, "#")
		}
		if v.detail == "" {
			v.detail = strings.ToLower(e.Type.String())
		}
		v.same = string(e.Type) + v.object + "\n" + v.same
		found = append(found, v)
	}
	return found
}

// cutPath returns the path of an error and its words without the path. The errors of allOf, anyOf,
// oneOf and not have the path in their words only.
func cutPath(e *field.Error) (at, detail string) {
	if quoted, err := strconv.QuotedPrefix(e.Detail); err == nil && e.Field == "<nil>" {
		at, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
		return at, strings.TrimSpace(e.Detail[len(quoted):])
	}
	return e.Field, strings.TrimPrefix(strings.TrimPrefix(e.Detail, e.Field), " in body ")
}
