package crdcheck

import (
	"math"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/starlinghq/starling/pkg/core/text"
)

// compareValues compares what a single value may be.
func (c *schemaComparer) compareValues(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	c.compareText(at, FormatChanged, "format", before.Format, after.Format, wider(before.Format, after.Format))
	c.compareText(at, PatternChanged, "pattern", before.Pattern, after.Pattern, false)
	c.compareEnum(at, before.Enum, after.Enum)
	if oldDefault, newDefault := rawOf(before.Default), rawOf(after.Default); oldDefault != newDefault {
		c.add(at, Change{Kind: DefaultChanged, Facet: "default", Old: oldDefault, New: newDefault, Breaking: true})
	}
	switch {
	case before.Nullable && !after.Nullable:
		c.add(at, Change{Kind: NullableRemoved, Facet: "nullable", Old: "true", Breaking: true})
	case after.Nullable && !before.Nullable:
		c.loosened(at, "nullable", "", "true")
	}
}

// compareText compares a keyword of which no two values can be ordered, unless isWider.
func (c *schemaComparer) compareText(at *path, kind Kind, facet, before, after string, isWider bool) {
	switch {
	case before == after:
	case after == "" || isWider:
		c.loosened(at, facet, before, after)
	default:
		c.add(at, Change{Kind: kind, Facet: facet, Old: before, New: after, Breaking: true})
	}
}

// wider reports whether a format accepts all numbers of another.
func wider(before, after string) bool {
	return before == "int32" && after == "int64" || before == "float" && after == "double"
}

func (c *schemaComparer) compareEnum(at *path, before, after []apiextensionsv1.JSON) {
	removed, added := missing(before, after), missing(after, before)
	switch {
	case len(after) == 0 && len(before) > 0:
		c.loosened(at, "enum", values(before), "")
	case len(before) == 0 && len(after) > 0:
		c.add(at, Change{Kind: EnumRestricted, Facet: "enum", New: values(after), Breaking: true})
	case len(removed) > 0:
		c.add(at, Change{Kind: EnumRestricted, Facet: "enum", Old: values(removed), New: values(added), Breaking: true})
	case len(added) > 0:
		c.loosened(at, "enum", "", values(added))
	}
}

// missing returns the values that are not among others. All are normalized.
func missing(items, others []apiextensionsv1.JSON) []apiextensionsv1.JSON {
	known := map[string]bool{}
	for _, other := range others {
		known[string(other.Raw)] = true
	}
	var out []apiextensionsv1.JSON
	for _, item := range items {
		if !known[string(item.Raw)] {
			out = append(out, item)
		}
	}
	return out
}

// values returns at most five.
func values(items []apiextensionsv1.JSON) string {
	var all []string
	for _, item := range items {
		all = append(all, string(item.Raw))
	}
	return text.List(all, 5)
}

func rawOf(value *apiextensionsv1.JSON) string {
	if value == nil {
		return ""
	}
	return string(value.Raw)
}

// A bound is an upper limit; a lower one is negated. Without a limit it is infinite.
type bound struct {
	limit     float64
	exclusive bool
}

// tighter reports whether the bound accepts less than the other.
func (b bound) tighter(other bound) bool {
	return b.limit < other.limit || b.limit == other.limit && b.exclusive && !other.exclusive
}

func upper[N int64 | float64](limit *N, exclusive bool) bound {
	if limit == nil {
		return bound{limit: math.Inf(1)}
	}
	return bound{limit: float64(*limit), exclusive: exclusive}
}

func lower[N int64 | float64](limit *N, exclusive bool) bound {
	b := upper(limit, exclusive)
	if limit != nil {
		b.limit = -b.limit
	}
	return b
}

func (c *schemaComparer) compareBounds(at *path, before, after *apiextensionsv1.JSONSchemaProps) {
	for _, b := range []struct {
		facet         string
		before, after bound
		sign          float64
	}{
		{"maximum", upper(before.Maximum, before.ExclusiveMaximum), upper(after.Maximum, after.ExclusiveMaximum), 1},
		{"minimum", lower(before.Minimum, before.ExclusiveMinimum), lower(after.Minimum, after.ExclusiveMinimum), -1},
		{"maxLength", upper(before.MaxLength, false), upper(after.MaxLength, false), 1},
		{"minLength", lower(before.MinLength, false), lower(after.MinLength, false), -1},
		{"maxItems", upper(before.MaxItems, false), upper(after.MaxItems, false), 1},
		{"minItems", lower(before.MinItems, false), lower(after.MinItems, false), -1},
		{"maxProperties", upper(before.MaxProperties, false), upper(after.MaxProperties, false), 1},
		{"minProperties", lower(before.MinProperties, false), lower(after.MinProperties, false), -1},
	} {
		oldLimit, newLimit := b.before.show(b.sign), b.after.show(b.sign)
		switch {
		case b.after.tighter(b.before):
			c.add(at, Change{Kind: BoundTightened, Facet: b.facet, Old: oldLimit, New: newLimit, Breaking: true})
		case b.before.tighter(b.after):
			c.loosened(at, b.facet, oldLimit, newLimit)
		}
	}
	c.compareMultiple(at, before.MultipleOf, after.MultipleOf)
	switch {
	case after.UniqueItems && !before.UniqueItems:
		c.add(at, Change{Kind: BoundTightened, Facet: "uniqueItems", New: "true", Breaking: true})
	case before.UniqueItems && !after.UniqueItems:
		c.loosened(at, "uniqueItems", "true", "")
	}
}

func (b bound) show(sign float64) string {
	if math.IsInf(b.limit, 1) {
		return ""
	}
	limit := strconv.FormatFloat(sign*b.limit, 'f', -1, 64)
	if b.exclusive {
		return limit + " (exclusive)"
	}
	return limit
}

func (c *schemaComparer) compareMultiple(at *path, before, after *float64) {
	show := func(n *float64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatFloat(*n, 'f', -1, 64)
	}
	oldValue, newValue := show(before), show(after)
	switch {
	case oldValue == newValue:
	case after == nil, before != nil && *after != 0 && math.Mod(*before, *after) == 0:
		c.loosened(at, "multipleOf", oldValue, newValue)
	default:
		c.add(at, Change{Kind: BoundTightened, Facet: "multipleOf", Old: oldValue, New: newValue, Breaking: true})
	}
}
