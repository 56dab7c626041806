package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	definitionPrefix = "#/definitions/"

	// maxErrors bounds the number of errors of one object.
	maxErrors = 50
)

// Schema is a schema in the part of OpenAPI that Kubernetes uses. Rules in CEL
// (x-kubernetes-validations) are not included: the API server checks them.
type Schema struct {
	Ref                  string                    `json:"$ref"`
	Type                 string                    `json:"type"`
	Format               string                    `json:"format"`
	Properties           map[string]*Schema        `json:"properties"`
	Required             []string                  `json:"required"`
	Items                *Schema                   `json:"items"`
	AdditionalProperties *Additional               `json:"additionalProperties"`
	Enum                 []any                     `json:"enum"`
	Minimum              *float64                  `json:"minimum"`
	Maximum              *float64                  `json:"maximum"`
	ExclusiveMinimum     bool                      `json:"exclusiveMinimum"`
	ExclusiveMaximum     bool                      `json:"exclusiveMaximum"`
	MultipleOf           *float64                  `json:"multipleOf"`
	MinLength            *int                      `json:"minLength"`
	MaxLength            *int                      `json:"maxLength"`
	Pattern              string                    `json:"pattern"`
	MinItems             *int                      `json:"minItems"`
	MaxItems             *int                      `json:"maxItems"`
	UniqueItems          bool                      `json:"uniqueItems"`
	MinProperties        *int                      `json:"minProperties"`
	MaxProperties        *int                      `json:"maxProperties"`
	AllOf                []*Schema                 `json:"allOf"`
	AnyOf                []*Schema                 `json:"anyOf"`
	OneOf                []*Schema                 `json:"oneOf"`
	Not                  *Schema                   `json:"not"`
	PreserveUnknown      bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool                      `json:"x-kubernetes-int-or-string"`
	EmbeddedResource     bool                      `json:"x-kubernetes-embedded-resource"`
	Kinds                []metav1.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// Additional says which fields an object may have in addition to its properties: none, any, or
// those with values of a schema.
type Additional struct {
	Allowed bool
	Schema  *Schema
}

// UnmarshalJSON decodes a boolean or a schema.
func (a *Additional) UnmarshalJSON(encoded []byte) error {
	if err := json.Unmarshal(encoded, &a.Allowed); err == nil {
		return nil
	}
	a.Allowed = true
	return json.Unmarshal(encoded, &a.Schema)
}

// Validate returns the errors in a value, in the order of the value, a bounded list. Strict also
// rejects fields that are not in the schema. The values of fields whose type is wrong are left out:
// they may be those of a Secret.
func (s *Schema) Validate(value *yaml.RNode, strict bool) field.ErrorList {
	v := &validation{strict: strict, patterns: map[string]*regexp.Regexp{}}
	v.value(s, value.YNode(), nil)
	return v.found
}

type validation struct {
	strict   bool
	found    field.ErrorList
	patterns map[string]*regexp.Regexp
	depth    int
}

func (v *validation) add(e *field.Error) {
	if len(v.found) < maxErrors {
		e.Field = strings.TrimPrefix(e.Field, "<nil>") // the root
		v.found = append(v.found, e)
	}
}

// invalid adds an error. The value is shown unless it is omitted.
func (v *validation) invalid(path *field.Path, value any, format string, args ...any) {
	v.add(field.Invalid(path, value, fmt.Sprintf(format, args...)))
}

// omitted stands for a value that is not shown.
var omitted = field.OmitValueType{}

func (v *validation) value(s *Schema, n *yaml.Node, path *field.Path) {
	n = resolve(n)
	s = s.resolved()
	v.depth++
	if s == nil || v.depth > 200 { // schemas may be recursive
		v.depth--
		return
	}
	defer func() { v.depth-- }()
	actual := typeOf(n)
	if actual == "null" { // the same as a missing field, which required checks
		return
	}
	if s.Type != actual { // the common case needs no list
		if types := s.types(); len(types) > 0 && !slices.Contains(types, actual) {
			v.invalid(path, omitted, "must be of type %s, is of type %s", strings.Join(types, " or "), actual)
			return
		}
	}
	switch {
	case n.Kind == yaml.MappingNode:
		v.mapping(s, n, path)
	case n.Kind == yaml.SequenceNode:
		v.sequence(s, n, path)
	case n.Kind == yaml.ScalarNode:
		v.scalar(s, n, actual, path)
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(allowed any) bool { return fmt.Sprint(allowed) == n.Value }) {
		var allowed []string
		for _, value := range s.Enum {
			allowed = append(allowed, fmt.Sprint(value))
		}
		v.add(field.NotSupported(path, n.Value, allowed))
	}
	v.combined(s, n, path)
}

// types returns the types that a value may have; none if it may have any.
func (s *Schema) types() []string {
	switch {
	case s.IntOrString, s.Format == "int-or-string":
		return []string{"integer", "string"}
	case s.Format == "quantity":
		return []string{"string", "integer", "number"}
	case s.Type == "number":
		return []string{"integer", "number"}
	case s.Type == "":
		return nil
	}
	return []string{s.Type}
}

// typeOf returns the JSON type of a node.
func typeOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "object"
	case n.Kind == yaml.SequenceNode:
		return "array"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return "boolean"
	case "!!int":
		return "integer"
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && f == math.Trunc(f) && !math.IsInf(f, 0) {
			return "integer" // 1.0, 1e3
		}
		return "number"
	}
	return "string"
}

func (v *validation) mapping(s *Schema, n *yaml.Node, path *field.Path) {
	present := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		at := path.Child(name)
		if present[name] {
			v.add(field.Duplicate(at, omitted))
		}
		present[name] = typeOf(resolve(value)) != "null"
		property := s.Properties[name]
		switch {
		case property != nil:
			v.value(property, value, at)
		case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			v.value(s.AdditionalProperties.Schema, value, at)
		case s.AdditionalProperties != nil && s.AdditionalProperties.Allowed, s.PreserveUnknown, s.EmbeddedResource:
		case v.strict && (len(s.Properties) > 0 || s.AdditionalProperties != nil):
			v.add(field.Forbidden(at, "unknown field"))
		}
	}
	for _, name := range s.Required {
		if !present[name] {
			v.add(field.Required(path.Child(name), ""))
		}
	}
	v.bounds(path, len(n.Content)/2, s.MinProperties, s.MaxProperties, "field")
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (v *validation) sequence(s *Schema, n *yaml.Node, path *field.Path) {
	v.bounds(path, len(n.Content), s.MinItems, s.MaxItems, "item")
	seen := map[string]bool{}
	for i, item := range n.Content {
		at := path.Index(i)
		if s.Items != nil {
			v.value(s.Items, item, at)
		}
		if s.UniqueItems {
			written, err := yaml.NewRNode(item).String()
			if err == nil && seen[written] {
				v.add(field.Duplicate(at, omitted))
			}
			seen[written] = true
		}
	}
}

func (v *validation) bounds(path *field.Path, length int, least, most *int, what string) {
	if least != nil && length < *least {
		v.invalid(path, omitted, "must have at least %s, has %d", text.Count(*least, what), length)
	}
	if most != nil && length > *most {
		v.invalid(path, omitted, "must have at most %s, has %d", text.Count(*most, what), length)
	}
}

func (v *validation) scalar(s *Schema, n *yaml.Node, actual string, path *field.Path) {
	switch actual {
	case "string":
		v.bounds(path, utf8.RuneCountInString(n.Value), s.MinLength, s.MaxLength, "character")
		if s.Pattern != "" && !v.matches(s.Pattern, n.Value) {
			v.invalid(path, n.Value, "must match %s", s.Pattern)
		}
	case "integer", "number":
		number, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			if integer, errInteger := strconv.ParseInt(n.Value, 0, 64); errInteger == nil {
				number = float64(integer) // 0x10, 0o7
			}
		}
		v.number(s, json.Number(n.Value), number, path)
	}
}

func (v *validation) number(s *Schema, shown json.Number, number float64, path *field.Path) {
	if s.Minimum != nil && (number < *s.Minimum || s.ExclusiveMinimum && number == *s.Minimum) {
		v.invalid(path, shown, "must be greater than %s%v", orEqual(s.ExclusiveMinimum), *s.Minimum)
	}
	if s.Maximum != nil && (number > *s.Maximum || s.ExclusiveMaximum && number == *s.Maximum) {
		v.invalid(path, shown, "must be less than %s%v", orEqual(s.ExclusiveMaximum), *s.Maximum)
	}
	if m := s.MultipleOf; m != nil && *m != 0 && math.Abs(math.Remainder(number, *m)) > 1e-9 {
		v.invalid(path, shown, "must be a multiple of %v", *m)
	}
	switch {
	case s.Format == "int32" && (number < math.MinInt32 || number > math.MaxInt32):
		v.invalid(path, shown, "must be an integer of 32 bits")
	case s.Format == "int64" && (number < math.MinInt64 || number > math.MaxInt64):
		v.invalid(path, shown, "must be an integer of 64 bits")
	}
}

func orEqual(exclusive bool) string {
	if exclusive {
		return ""
	}
	return "or equal to "
}

// matches reports whether a value matches a pattern. It returns true for patterns that Go does not
// support: the API server checks those.
func (v *validation) matches(pattern, value string) bool {
	expression, known := v.patterns[pattern]
	if !known {
		expression, _ = regexp.Compile(pattern) // nil if it does not
		v.patterns[pattern] = expression
	}
	return expression == nil || expression.MatchString(value)
}

func (v *validation) combined(s *Schema, n *yaml.Node, path *field.Path) {
	for _, part := range s.AllOf {
		v.value(part, n, path)
	}
	if len(s.AnyOf) > 0 && v.count(s.AnyOf, n) == 0 {
		v.invalid(path, omitted, "must match at least one alternative of the schema (anyOf), matches none")
	}
	if len(s.OneOf) > 0 {
		if matching := v.count(s.OneOf, n); matching != 1 {
			v.invalid(path, omitted, "must match exactly one alternative of the schema (oneOf), matches %d", matching)
		}
	}
	if s.Not != nil && v.count([]*Schema{s.Not}, n) == 1 {
		v.invalid(path, omitted, "must not match the schema in not")
	}
}

// count returns the number of alternatives that a value matches. Unknown fields are allowed in
// them, because their parent rejects unknown fields.
func (v *validation) count(alternatives []*Schema, n *yaml.Node) int {
	matching := 0
	for _, alternative := range alternatives {
		trial := &validation{patterns: v.patterns, depth: v.depth}
		trial.value(alternative, n, nil)
		if len(trial.found) == 0 {
			matching++
		}
	}
	return matching
}

// TypeAt returns the type of the value at a path of names, with anything in brackets for elements
// of lists; "" if the schema has none, or several.
func (s *Schema) TypeAt(path []string) string {
	for _, part := range path {
		if s = s.resolved(); s == nil {
			return ""
		}
		switch property := s.Properties[part]; {
		case strings.HasPrefix(part, "[") && s.Items != nil:
			s = s.Items
		case property != nil:
			s = property
		case s.AdditionalProperties != nil:
			s = s.AdditionalProperties.Schema
		default:
			return ""
		}
	}
	if s = s.resolved(); s == nil || len(s.types()) != 1 {
		return ""
	}
	return s.types()[0]
}

func (s *Schema) resolved() *Schema {
	for s != nil && s.Ref != "" {
		s = builtin().Definitions[strings.TrimPrefix(s.Ref, definitionPrefix)]
	}
	return s
}
