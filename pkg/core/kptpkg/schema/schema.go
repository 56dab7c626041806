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

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	definitionPrefix = "#/definitions/"

	// maxViolations bounds what is said of one object.
	maxViolations = 50
)

// Schema is a schema as Kubernetes writes them: the part of OpenAPI that it uses. Rules in CEL (x-kubernetes-validations) are not
// among it: the API server checks them.
type Schema struct {
	Ref                  string             `json:"$ref"`
	Type                 string             `json:"type"`
	Format               string             `json:"format"`
	Nullable             bool               `json:"nullable"`
	Properties           map[string]*Schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *Schema            `json:"items"`
	AdditionalProperties *Additional        `json:"additionalProperties"`
	Enum                 []any              `json:"enum"`
	Minimum              *float64           `json:"minimum"`
	Maximum              *float64           `json:"maximum"`
	ExclusiveMinimum     bool               `json:"exclusiveMinimum"`
	ExclusiveMaximum     bool               `json:"exclusiveMaximum"`
	MultipleOf           *float64           `json:"multipleOf"`
	MinLength            *int               `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	Pattern              string             `json:"pattern"`
	MinItems             *int               `json:"minItems"`
	MaxItems             *int               `json:"maxItems"`
	UniqueItems          bool               `json:"uniqueItems"`
	MinProperties        *int               `json:"minProperties"`
	MaxProperties        *int               `json:"maxProperties"`
	AllOf                []*Schema          `json:"allOf"`
	AnyOf                []*Schema          `json:"anyOf"`
	OneOf                []*Schema          `json:"oneOf"`
	Not                  *Schema            `json:"not"`
	PreserveUnknown      bool               `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool               `json:"x-kubernetes-int-or-string"`
	EmbeddedResource     bool               `json:"x-kubernetes-embedded-resource"`
	Kinds                []Kind             `json:"x-kubernetes-group-version-kind"`
}

// Kind is a kind that a Schema is of.
type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// Additional says what an object may hold beside its properties: nothing, anything, or values of a schema.
type Additional struct {
	Allowed bool
	Schema  *Schema
}

// UnmarshalJSON reads a boolean or a schema.
func (a *Additional) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &a.Allowed); err == nil {
		return nil
	}
	a.Allowed = true
	return json.Unmarshal(text, &a.Schema)
}

// Violation is one thing that is wrong with an object.
type Violation struct {
	// Path leads to the field, like spec.ports.0.port.
	Path    string
	Message string
}

// Validate returns what is wrong with a value, in the order it is written, a bounded list. Strict also refuses fields that the schema
// does not know.
func (s *Schema) Validate(value *yaml.RNode, strict bool) []Violation {
	v := &validation{strict: strict, patterns: map[string]*regexp.Regexp{}}
	v.value(s, value.YNode(), nil)
	return v.found
}

type validation struct {
	strict   bool
	found    []Violation
	patterns map[string]*regexp.Regexp
	depth    int
}

func (v *validation) add(path []string, format string, args ...any) {
	if len(v.found) < maxViolations {
		v.found = append(v.found, Violation{strings.Join(path, "."), fmt.Sprintf(format, args...)})
	}
}

func (v *validation) value(s *Schema, n *yaml.Node, path []string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	s = s.resolved()
	v.depth++
	if s == nil || v.depth > 200 { // schemas may hold themselves
		v.depth--
		return
	}
	defer func() { v.depth-- }()
	actual := typeOf(n)
	if actual == "null" { // as good as not there; what is required says so itself
		return
	}
	if !s.allows(actual) {
		v.add(path, "is of type %s, want %s", actual, s.wanted())
		return
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
		v.add(path, "is %q, want one of %s", n.Value, strings.Join(allowed, ", "))
	}
	v.combined(s, n, path)
}

func (s *Schema) allows(actual string) bool {
	switch {
	case s.Type == "", s.Type == actual, s.Type == "number" && actual == "integer":
		return true
	case s.IntOrString, s.Format == "int-or-string":
		return actual == "integer" || actual == "string"
	case s.Format == "quantity":
		return actual == "integer" || actual == "number"
	}
	return false
}

func (s *Schema) wanted() string {
	switch {
	case s.IntOrString, s.Format == "int-or-string":
		return "integer or string"
	case s.Format == "quantity":
		return "string or number"
	}
	return s.Type
}

// typeOf is the type that a node has in JSON.
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

func (v *validation) mapping(s *Schema, n *yaml.Node, path []string) {
	present := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		at := append(slices.Clip(path), name)
		if present[name] {
			v.add(at, "is there twice")
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
			v.add(at, "is not a field of the schema")
		}
	}
	for _, name := range s.Required {
		if !present[name] {
			v.add(append(slices.Clip(path), name), "is required")
		}
	}
	v.bounds(path, len(n.Content)/2, s.MinProperties, s.MaxProperties, "properties")
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (v *validation) sequence(s *Schema, n *yaml.Node, path []string) {
	v.bounds(path, len(n.Content), s.MinItems, s.MaxItems, "items")
	seen := map[string]bool{}
	for i, item := range n.Content {
		at := append(slices.Clip(path), strconv.Itoa(i))
		if s.Items != nil {
			v.value(s.Items, item, at)
		}
		if s.UniqueItems {
			text, err := yaml.NewRNode(item).String()
			if err == nil && seen[text] {
				v.add(at, "is there twice")
			}
			seen[text] = true
		}
	}
}

func (v *validation) bounds(path []string, length int, least, most *int, what string) {
	if least != nil && length < *least {
		v.add(path, "has %d %s, want at least %d", length, what, *least)
	}
	if most != nil && length > *most {
		v.add(path, "has %d %s, want at most %d", length, what, *most)
	}
}

func (v *validation) scalar(s *Schema, n *yaml.Node, actual string, path []string) {
	switch actual {
	case "string":
		v.bounds(path, utf8.RuneCountInString(n.Value), s.MinLength, s.MaxLength, "characters")
		if s.Pattern != "" && !v.matches(s.Pattern, n.Value) {
			v.add(path, "is %q, want a match of %s", n.Value, s.Pattern)
		}
	case "integer", "number":
		number, err := strconv.ParseFloat(n.Value, 64)
		if err != nil {
			if integer, errInteger := strconv.ParseInt(n.Value, 0, 64); errInteger == nil {
				number = float64(integer) // 0x10, 0o7
			}
		}
		v.number(s, n.Value, number, path)
	}
}

func (v *validation) number(s *Schema, text string, number float64, path []string) {
	if s.Minimum != nil && (number < *s.Minimum || s.ExclusiveMinimum && number == *s.Minimum) {
		v.add(path, "is %s, want %s %v", text, either(s.ExclusiveMinimum, "more than", "at least"), *s.Minimum)
	}
	if s.Maximum != nil && (number > *s.Maximum || s.ExclusiveMaximum && number == *s.Maximum) {
		v.add(path, "is %s, want %s %v", text, either(s.ExclusiveMaximum, "less than", "at most"), *s.Maximum)
	}
	if m := s.MultipleOf; m != nil && *m != 0 && math.Abs(math.Remainder(number, *m)) > 1e-9 {
		v.add(path, "is %s, want a multiple of %v", text, *m)
	}
	switch {
	case s.Format == "int32" && (number < math.MinInt32 || number > math.MaxInt32):
		v.add(path, "is %s, want an integer of 32 bits", text)
	case s.Format == "int64" && (number < math.MinInt64 || number > math.MaxInt64):
		v.add(path, "is %s, want an integer of 64 bits", text)
	}
}

func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}

// matches also says yes to a pattern that Go does not know: the API server decides there.
func (v *validation) matches(pattern, value string) bool {
	expression, known := v.patterns[pattern]
	if !known {
		expression, _ = regexp.Compile(pattern) // nil if it does not
		v.patterns[pattern] = expression
	}
	return expression == nil || expression.MatchString(value)
}

func (v *validation) combined(s *Schema, n *yaml.Node, path []string) {
	for _, part := range s.AllOf {
		v.value(part, n, path)
	}
	if len(s.AnyOf) > 0 && v.count(s.AnyOf, n) == 0 {
		v.add(path, "matches none of the alternatives of the schema (anyOf)")
	}
	if len(s.OneOf) > 0 {
		if matching := v.count(s.OneOf, n); matching != 1 {
			v.add(path, "matches %d of the alternatives of the schema, want exactly one (oneOf)", matching)
		}
	}
	if s.Not != nil && v.count([]*Schema{s.Not}, n) == 1 {
		v.add(path, "matches what the schema forbids (not)")
	}
}

// count counts the alternatives that a value matches. They are not closed: what they do not know is for their parent to refuse.
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

// TypeAt returns the type of the value at a path of names, and of anything in brackets for elements of lists; "" if the schema says
// nothing, or allows several.
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
	if s = s.resolved(); s == nil || s.IntOrString || s.Format == "int-or-string" || s.Format == "quantity" {
		return ""
	}
	return s.Type
}

func (s *Schema) resolved() *Schema {
	for s != nil && s.Ref != "" {
		s = builtin().Definitions[strings.TrimPrefix(s.Ref, definitionPrefix)]
	}
	return s
}
