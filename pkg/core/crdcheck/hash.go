package crdcheck

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"math"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Hash returns a digest of what Normalize keeps. CRDs with equal hashes need no further comparison.
//
// It is quick, since an installation has hundreds of CRDs with thousands of fields, of which few
// change: schemas are neither copied nor encoded.
func Hash(crd *apiextensionsv1.CustomResourceDefinition) string {
	outside := apiextensionsv1.CustomResourceDefinition{}
	outside.Name, outside.Spec = crd.Name, crd.Spec
	outside.Spec.Versions = slices.Clone(crd.Spec.Versions)
	d := &digest{hash: sha256.New()}
	for i := range outside.Spec.Versions {
		version := &outside.Spec.Versions[i]
		if version.Schema != nil {
			d.schema(version.Schema.OpenAPIV3Schema)
			version.Schema = nil
		}
		d.byte(endOfSchema)
	}
	d.json(Normalize(&outside).Spec)
	d.text(crd.Name)
	d.flush()
	return hex.EncodeToString(d.hash.Sum(nil))
}

// A digest writes values so that different ones are written differently: each keyword has a number,
// and each text its length.
type digest struct {
	hash   hash.Hash
	buffer []byte
	// Stacks of the sorted names and of the current property of each level, to allocate nothing for
	// each schema.
	names      []string
	properties []apiextensionsv1.JSONSchemaProps
}

// Numbers of what is written. They need not be stable: hashes are compared within one process and
// its caches only.
const (
	endOfSchema byte = iota
	keywordType
	keywordFormat
	keywordPattern
	keywordDescription
	keywordTitle
	keywordFlags
	keywordDefault
	keywordMaximum
	keywordMinimum
	keywordMultipleOf
	keywordMaxLength
	keywordMinLength
	keywordMaxItems
	keywordMinItems
	keywordMaxProperties
	keywordMinProperties
	keywordEnum
	keywordRequired
	keywordProperties
	keywordItems
	keywordAdditionalProperties
	keywordAllOf
	keywordAnyOf
	keywordOneOf
	keywordNot
	keywordListType
	keywordListMapKeys
	keywordMapType
	keywordRules
	keywordOther
)

func (d *digest) flush() {
	d.hash.Write(d.buffer)
	d.buffer = d.buffer[:0]
}

func (d *digest) byte(b byte) {
	if len(d.buffer) > 1<<12 {
		d.flush()
	}
	d.buffer = append(d.buffer, b)
}

func (d *digest) number(n uint64) { d.buffer = binary.BigEndian.AppendUint64(d.buffer, n) }

func (d *digest) text(s string) {
	d.number(uint64(len(s)))
	d.buffer = append(d.buffer, s...)
}

// json writes a value of which there are few. A value that cannot be encoded, such as malformed
// JSON of an example, is written in Go's syntax.
func (d *digest) json(value any) {
	encoded, err := json.Marshal(value)
	if err != nil {
		encoded = fmt.Appendf(nil, "%#v", value)
	}
	d.text(string(encoded))
}

func (d *digest) keywordText(keyword byte, value string) {
	if value != "" {
		d.byte(keyword)
		d.text(value)
	}
}

func (d *digest) keywordPointer(keyword byte, value *string) {
	if value != nil {
		d.byte(keyword)
		d.text(*value)
	}
}

func (d *digest) keywordInteger(keyword byte, value *int64) {
	if value != nil {
		d.byte(keyword)
		d.number(uint64(*value))
	}
}

func (d *digest) keywordFloat(keyword byte, value *float64) {
	if value != nil {
		d.byte(keyword)
		d.number(math.Float64bits(*value))
	}
}

func (d *digest) schema(s *apiextensionsv1.JSONSchemaProps) {
	if s == nil {
		return
	}
	d.keywordText(keywordType, s.Type)
	d.keywordText(keywordFormat, s.Format)
	d.keywordText(keywordPattern, s.Pattern)
	d.keywordText(keywordDescription, s.Description)
	d.keywordText(keywordTitle, s.Title)
	d.flags(s.Nullable, s.ExclusiveMaximum, s.ExclusiveMinimum, s.UniqueItems, s.XEmbeddedResource, s.XIntOrString,
		s.XPreserveUnknownFields != nil, preservesUnknown(s))
	if s.Default != nil {
		d.byte(keywordDefault)
		d.value(s.Default)
	}
	d.keywordFloat(keywordMaximum, s.Maximum)
	d.keywordFloat(keywordMinimum, s.Minimum)
	d.keywordFloat(keywordMultipleOf, s.MultipleOf)
	d.keywordInteger(keywordMaxLength, s.MaxLength)
	d.keywordInteger(keywordMinLength, s.MinLength)
	d.keywordInteger(keywordMaxItems, s.MaxItems)
	d.keywordInteger(keywordMinItems, s.MinItems)
	d.keywordInteger(keywordMaxProperties, s.MaxProperties)
	d.keywordInteger(keywordMinProperties, s.MinProperties)
	d.sets(s)
	d.children(s)
	d.keywordPointer(keywordListType, s.XListType)
	d.keywordPointer(keywordMapType, s.XMapType)
	if len(s.XListMapKeys) > 0 {
		d.byte(keywordListMapKeys)
		d.json(s.XListMapKeys)
	}
	if len(s.XValidations) > 0 {
		d.byte(keywordRules)
		d.json(s.XValidations)
	}
	d.other(s)
	d.byte(endOfSchema)
}

func (d *digest) flags(flags ...bool) {
	var bits byte
	for i, flag := range flags {
		if flag {
			bits |= 1 << i
		}
	}
	if bits != 0 {
		d.byte(keywordFlags)
		d.byte(bits)
	}
}

// value writes a JSON value in its canonical form.
func (d *digest) value(value *apiextensionsv1.JSON) {
	raw := value.Raw
	if !isPlain(raw) {
		raw = canonicalJSON(raw)
	}
	d.number(uint64(len(raw)))
	d.buffer = append(d.buffer, raw...)
}

// isPlain reports whether a JSON value is a text of which canonicalJSON escapes nothing.
func isPlain(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return false
	}
	return !slices.ContainsFunc(raw[1:len(raw)-1], func(b byte) bool {
		return b < ' ' || b > '~' || b == '"' || b == '\\' || b == '<' || b == '>' || b == '&'
	})
}

// sets writes lists whose order means nothing.
func (d *digest) sets(s *apiextensionsv1.JSONSchemaProps) {
	if len(s.Enum) > 0 {
		d.byte(keywordEnum)
		d.number(uint64(len(s.Enum)))
		for i := range s.Enum {
			d.value(&s.Enum[i])
		}
	}
	if len(s.Required) > 0 {
		d.byte(keywordRequired)
		d.number(uint64(len(s.Required)))
		required := s.Required
		if !slices.IsSorted(required) {
			required = slices.Sorted(slices.Values(required))
		}
		for _, name := range required {
			d.text(name)
		}
	}
}

func (d *digest) children(s *apiextensionsv1.JSONSchemaProps) {
	if len(s.Properties) > 0 {
		d.byte(keywordProperties)
		start := len(d.names)
		d.names = slices.AppendSeq(d.names, maps.Keys(s.Properties))
		end := len(d.names)
		slices.Sort(d.names[start:end])
		for i := start; i < end; i++ {
			name := d.names[i]
			d.text(name)
			d.properties = append(d.properties, s.Properties[name])
			d.schema(&d.properties[len(d.properties)-1]) // it stays where it is if the stack grows
			d.properties = d.properties[:len(d.properties)-1]
		}
		d.names = d.names[:start]
		d.byte(endOfSchema)
	}
	if s.Items != nil {
		d.byte(keywordItems)
		d.schema(s.Items.Schema)
		d.list(s.Items.JSONSchemas)
	}
	if s.AdditionalProperties != nil {
		d.byte(keywordAdditionalProperties)
		// A schema is encoded without the flag, so it does not count beside one.
		d.flags(s.AdditionalProperties.Allows && s.AdditionalProperties.Schema == nil, s.AdditionalProperties.Schema != nil)
		d.schema(s.AdditionalProperties.Schema)
	}
	for _, logic := range []struct {
		keyword  byte
		branches []apiextensionsv1.JSONSchemaProps
	}{{keywordAllOf, s.AllOf}, {keywordAnyOf, s.AnyOf}, {keywordOneOf, s.OneOf}} {
		if len(logic.branches) > 0 {
			d.byte(logic.keyword)
			d.list(logic.branches)
		}
	}
	if s.Not != nil {
		d.byte(keywordNot)
		d.schema(s.Not)
	}
}

func (d *digest) list(schemas []apiextensionsv1.JSONSchemaProps) {
	d.number(uint64(len(schemas)))
	for i := range schemas {
		d.schema(&schemas[i])
	}
}

// other writes the keywords that hardly any CRD has.
func (d *digest) other(s *apiextensionsv1.JSONSchemaProps) {
	if s.ID == "" && s.Schema == "" && s.Ref == nil && s.ExternalDocs == nil && s.Example == nil && s.PatternProperties == nil &&
		s.Definitions == nil && s.Dependencies == nil && s.AdditionalItems == nil {
		return
	}
	rest := (&apiextensionsv1.JSONSchemaProps{
		ID: s.ID, Schema: s.Schema, Ref: s.Ref, ExternalDocs: s.ExternalDocs, Example: s.Example, PatternProperties: s.PatternProperties,
		Definitions: s.Definitions, Dependencies: s.Dependencies, AdditionalItems: s.AdditionalItems,
	}).DeepCopy()
	normalizeSchema(rest)
	d.byte(keywordOther)
	d.json(rest)
}
