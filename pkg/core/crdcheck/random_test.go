package crdcheck_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// A generator makes random structural schemas, and objects that fit them.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, 1))} }

func (g generator) chance(percent int) bool { return g.IntN(100) < percent }

func jsonOf(format string, args ...any) apiextensionsv1.JSON {
	return apiextensionsv1.JSON{Raw: fmt.Appendf(nil, format, args...)}
}

// schema returns a schema that the API server accepts for a property.
func (g generator) schema(depth int) schemaType {
	kinds := []string{"string", "integer", "number", "boolean", "intOrString", "object", "array", "map", "unknown"}
	if depth <= 0 {
		kinds = kinds[:5]
	}
	s := schemaType{}
	switch kind := kinds[g.IntN(len(kinds))]; kind {
	case "string":
		s.Type = "string"
		if g.chance(30) {
			s.MaxLength = new(int64(3 + g.IntN(5)))
		}
		if g.chance(20) {
			s.MinLength = new(int64(1))
		}
		if g.chance(20) {
			s.Pattern = "^[abc]*$"
		}
		if g.chance(20) {
			s.Enum = []apiextensionsv1.JSON{jsonOf(`"a"`), jsonOf(`"b"`), jsonOf(`"abc"`)}
		}
		if g.chance(15) {
			s.Default = new(jsonOf(`"abc"`))
		}
	case "integer", "number":
		s.Type = kind
		if g.chance(30) {
			s.Maximum = new(float64(5 + g.IntN(5)))
		}
		if g.chance(30) {
			s.Minimum = new(float64(-g.IntN(5)))
		}
		if g.chance(15) {
			s.Default = new(jsonOf("2"))
		}
	case "boolean":
		s.Type = kind
	case "intOrString":
		s.XIntOrString = true
	case "object":
		s = g.object(depth)
	case "array":
		s.Type = "array"
		s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: new(g.schema(depth - 1))}
		if g.chance(30) {
			s.MaxItems = new(int64(2 + g.IntN(3)))
		}
		if g.chance(20) && s.Items.Schema.Type == "string" && s.Items.Schema.Default == nil {
			s.XListType = new("set")
		}
	case "map":
		s.Type = "object"
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: new(g.schema(depth - 1))}
	case "unknown":
		s.Type = "object"
		s.XPreserveUnknownFields = new(true)
	}
	if g.chance(10) && s.XListType == nil {
		s.Nullable = true
	}
	return s
}

func (g generator) object(depth int) schemaType {
	s := schemaType{Type: "object", Properties: map[string]schemaType{}}
	for i := range 1 + g.IntN(4) {
		name := string(rune('a' + i))
		s.Properties[name] = g.schema(depth - 1)
		if g.chance(25) {
			s.Required = append(s.Required, name)
		}
	}
	if g.chance(15) {
		s.XValidations = apiextensionsv1.ValidationRules{{Rule: "has(self.a) || !has(self.a)"}}
	}
	return s
}

// root returns a schema of a whole object.
func (g generator) root() schemaType {
	return schemaType{Type: "object", Properties: map[string]schemaType{"spec": g.object(3)}}
}

// value returns a value that often fits a schema.
func (g generator) value(s *schemaType) any {
	if s.Nullable && g.chance(20) {
		return nil
	}
	switch {
	case len(s.Enum) > 0:
		return []any{"a", "b", "abc"}[g.IntN(3)]
	case s.XIntOrString:
		return []any{"a", int64(1)}[g.IntN(2)]
	case s.Type == "string":
		return []any{"", "a", "b", "abc", "abcabcabc", "xyz"}[g.IntN(6)]
	case s.Type == "integer":
		return int64(g.IntN(16) - 6)
	case s.Type == "number":
		return float64(g.IntN(32))/2 - 6
	case s.Type == "boolean":
		return g.chance(50)
	case s.Type == "array":
		list := []any{}
		for range g.IntN(4) {
			list = append(list, g.value(s.Items.Schema))
		}
		return list
	case s.AdditionalProperties != nil:
		values := map[string]any{}
		for range g.IntN(4) {
			values[string(rune('p'+g.IntN(6)))] = g.value(s.AdditionalProperties.Schema)
		}
		return values
	case s.Type == "object" && len(s.Properties) == 0:
		return map[string]any{"u": "a", "a": int64(1)}
	default:
		values := map[string]any{}
		for name, property := range s.Properties {
			if slices.Contains(s.Required, name) || g.chance(60) {
				values[name] = g.value(&property)
			}
			if g.chance(5) {
				values[name] = []any{"xyz", int64(3), true, nil}[g.IntN(4)]
			}
		}
		return values
	}
}

func (g generator) widget(s *schemaType) map[string]any {
	content, _ := g.value(s).(map[string]any)
	content["apiVersion"], content["kind"] = "example.com/v1", "Widget"
	content["metadata"] = map[string]any{"namespace": "default", "name": "w"}
	return content
}

// A mutation changes one schema. It returns false if it does not apply.
type mutation struct {
	name   string
	tight  bool // fewer values are accepted, or some are lost
	change func(g generator, s *schemaType) bool
}

// below returns a limit that is smaller than another.
func below[N int64 | float64](limit *N, otherwise N) *N {
	if limit == nil {
		return new(otherwise)
	}
	return new(*limit - 1)
}

func above[N int64 | float64](limit *N, otherwise N) *N {
	if limit == nil {
		return new(otherwise)
	}
	return new(*limit + 1)
}

func ofType(wanted string, change func(*schemaType)) func(generator, *schemaType) bool {
	return func(_ generator, s *schemaType) bool {
		if s.Type != wanted {
			return false
		}
		change(s)
		return true
	}
}

var mutations = []mutation{
	{"maxLength", true, ofType("string", func(s *schemaType) { s.MaxLength = below(s.MaxLength, 2) })},
	{"minLength", true, ofType("string", func(s *schemaType) { s.MinLength = above(s.MinLength, 2) })},
	{"pattern", true, ofType("string", func(s *schemaType) { s.Pattern += "|x" })},
	{"format", true, ofType("string", func(s *schemaType) { s.Format = "date" })},
	{"maximum", true, ofType("integer", func(s *schemaType) { s.Maximum = below(s.Maximum, 3) })},
	{"minimum", true, ofType("number", func(s *schemaType) { s.Minimum = above(s.Minimum, 1) })},
	{"exclusiveMaximum", true, func(_ generator, s *schemaType) bool {
		if s.Maximum == nil || s.ExclusiveMaximum {
			return false
		}
		s.ExclusiveMaximum = true
		return true
	}},
	{"multipleOf", true, ofType("integer", func(s *schemaType) { s.MultipleOf = new(7.0) })},
	{"toString", true, ofType("integer", func(s *schemaType) { *s = schemaType{Type: "string"} })},
	{"toInteger", true, ofType("number", func(s *schemaType) { s.Type = "integer" })},
	{"enum", true, ofType("string", func(s *schemaType) {
		if len(s.Enum) > 0 {
			s.Enum = s.Enum[1:]
		} else {
			s.Enum = []apiextensionsv1.JSON{jsonOf(`"a"`), jsonOf(`"b"`)}
		}
	})},
	{"maxItems", true, ofType("array", func(s *schemaType) { s.MaxItems = below(s.MaxItems, 1) })},
	{"minItems", true, ofType("array", func(s *schemaType) { s.MinItems = above(s.MinItems, 1) })},
	{"maxProperties", true, ofType("object", func(s *schemaType) { s.MaxProperties = below(s.MaxProperties, 1) })},
	{"minProperties", true, ofType("object", func(s *schemaType) { s.MinProperties = above(s.MinProperties, 1) })},
	{"set", true, func(_ generator, s *schemaType) bool {
		if s.Type != "array" || s.XListType != nil || s.Items.Schema.Type != "string" || s.Items.Schema.Nullable {
			return false
		}
		s.XListType = new("set")
		return true
	}},
	{"nullable", true, func(_ generator, s *schemaType) bool {
		was := s.Nullable
		s.Nullable = false
		return was
	}},
	{"unknown", true, func(_ generator, s *schemaType) bool {
		was := s.XPreserveUnknownFields != nil
		s.XPreserveUnknownFields = nil
		return was
	}},
	{"additional", true, func(_ generator, s *schemaType) bool {
		was := s.AdditionalProperties != nil
		s.AdditionalProperties = nil
		return was
	}},
	{"removeField", true, func(_ generator, s *schemaType) bool {
		_, had := s.Properties["a"]
		delete(s.Properties, "a")
		s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return name == "a" })
		s.XValidations = nil
		return had
	}},
	{"require", true, func(_ generator, s *schemaType) bool {
		property, has := s.Properties["a"]
		if !has || slices.Contains(s.Required, "a") || property.Default != nil {
			return false
		}
		s.Required = append(s.Required, "a")
		return true
	}},
	{"requireNew", true, func(_ generator, s *schemaType) bool {
		if s.Properties == nil {
			return false
		}
		s.Properties["z"] = schemaType{Type: "string"}
		s.Required = append(s.Required, "z")
		return true
	}},
	{"rule", true, ofType("integer", func(s *schemaType) {
		s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{Rule: "self != 3"})
	})},
	{"allOf", true, ofType("string", func(s *schemaType) { s.AllOf = append(s.AllOf, schemaType{Pattern: "b"}) })},
	{"not", true, ofType("string", func(s *schemaType) { s.Not = &schemaType{Enum: []apiextensionsv1.JSON{jsonOf(`"a"`)}} })},
	{"oneOf", true, ofType("string", func(s *schemaType) { s.OneOf = []schemaType{{Pattern: "a"}, {Pattern: "b"}} })},
	{"anyOf", true, ofType("string", func(s *schemaType) { s.AnyOf = []schemaType{{Pattern: "a"}, {Pattern: "b"}} })},
	{"embedded", true, func(_ generator, s *schemaType) bool {
		if s.XPreserveUnknownFields == nil {
			return false
		}
		s.XEmbeddedResource = true
		return true
	}},

	{"addField", false, func(g generator, s *schemaType) bool {
		if s.Properties == nil || len(s.XValidations) > 0 {
			return false
		}
		added := g.schema(1)
		s.Properties["y"] = added
		return true
	}},
	{"loosen", false, func(_ generator, s *schemaType) bool {
		s.MaxLength, s.MinLength, s.Pattern, s.Enum, s.Maximum, s.Minimum = nil, nil, "", nil, nil, nil
		s.MaxItems, s.MaxProperties, s.Required = nil, nil, nil
		return true
	}},
	{"toNumber", false, ofType("integer", func(s *schemaType) { s.Type = "number" })},
	{"describe", false, func(_ generator, s *schemaType) bool {
		s.Description = "new"
		return true
	}},
	{"addDefault", true, func(_ generator, s *schemaType) bool {
		if s.Type != "string" || s.Default != nil {
			return false
		}
		s.Default = new(jsonOf(`"abc"`))
		return true
	}},
	{"removeDefault", true, func(_ generator, s *schemaType) bool {
		had := s.Default != nil
		s.Default = nil
		return had
	}},
}

// place returns the places in a schema, with a function that changes the schema there.
type place struct {
	path   string
	update func(func(*schemaType) bool) bool
}

func placesOf(s *schemaType, at string) []place {
	places := []place{{at, func(change func(*schemaType) bool) bool { return change(s) }}}
	nested := func(child *schemaType, path string, write func()) {
		for _, p := range placesOf(child, path) {
			places = append(places, place{p.path, func(change func(*schemaType) bool) bool {
				changed := p.update(change)
				write()
				return changed
			}})
		}
	}
	for name, property := range s.Properties {
		path := name
		if at != "" {
			path = at + "." + name
		}
		nested(&property, path, func() { s.Properties[name] = property })
	}
	if s.Items != nil {
		nested(s.Items.Schema, at+"[*]", func() {})
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		nested(s.AdditionalProperties.Schema, at+"[*]", func() {})
	}
	slices.SortFunc(places, func(a, b place) int { return slices.Compare([]string{a.path}, []string{b.path}) })
	return places
}

// mutate returns a changed copy of a schema, what was done, and where. It returns false if nothing
// was.
func (g generator) mutate(s *schemaType) (changed *schemaType, done mutation, at string, ok bool) {
	changed = s.DeepCopy()
	for range 20 {
		places := placesOf(changed, "")
		chosen := places[g.IntN(len(places))]
		done = mutations[g.IntN(len(mutations))]
		if chosen.path != "" && chosen.update(func(s *schemaType) bool { return done.change(g, s) }) {
			return changed, done, chosen.path, true
		}
	}
	return nil, mutation{}, "", false
}
