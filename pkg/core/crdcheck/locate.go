package crdcheck

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// locate returns the place in a schema of a path in an object, as the API server writes the latter:
// "spec.items[0].labels.a/b" is "spec.items[*].labels[*]". Keys of maps may hold any character, so
// they are looked up in the object. What cannot be resolved is one element.
func locate(schema *apiextensionsv1.JSONSchemaProps, object any, at string) *path {
	var found *path
	for {
		if at = strings.TrimPrefix(at, "."); at == "" {
			return found
		}
		if index, rest, ok := cutIndex(at); ok {
			if items, isList := object.([]any); isList && index < len(items) {
				found, at, object = found.each(), rest, items[index]
				if schema != nil {
					schema = itemsOf(schema)
				}
				continue
			}
		}
		name, rest := cutKey(schema, object, at)
		values := child(schema, name)
		if values != nil && !hasProperty(schema, name) {
			found = found.each()
		} else {
			found = found.field(name)
		}
		fields, _ := object.(map[string]any)
		schema, object, at = values, fields[name], rest
	}
}

// child returns nil if there is no schema for the key.
func child(schema *apiextensionsv1.JSONSchemaProps, name string) *apiextensionsv1.JSONSchemaProps {
	if schema == nil {
		return nil
	}
	if property, is := schema.Properties[name]; is {
		return &property
	}
	values, _ := additional(schema)
	return values
}

func hasProperty(schema *apiextensionsv1.JSONSchemaProps, name string) bool {
	_, is := schema.Properties[name]
	return is
}

// cutIndex cuts "[12]" off.
func cutIndex(at string) (index int, rest string, ok bool) {
	inside, found := strings.CutPrefix(at, "[")
	if !found {
		return 0, at, false
	}
	number, rest, closed := strings.Cut(inside, "]")
	if !closed || number == "" || len(number) > 9 {
		return 0, at, false
	}
	for _, digit := range number {
		if digit < '0' || digit > '9' {
			return 0, at, false
		}
		index = index*10 + int(digit-'0')
	}
	return index, rest, true
}

// cutKey cuts the longest key of the object, or property of the schema, that the path begins with.
// Without any it cuts what ends at the next separator.
func cutKey(schema *apiextensionsv1.JSONSchemaProps, object any, at string) (key, rest string) {
	try := func(name string) {
		for _, written := range []string{name, "[" + name + "]"} {
			after, begins := strings.CutPrefix(at, written)
			if begins && len(name) > len(key) && (after == "" || after[0] == '.' || after[0] == '[') {
				key, rest = name, after
			}
		}
	}
	fields, _ := object.(map[string]any)
	for name := range fields {
		try(name)
	}
	if schema != nil {
		for name := range schema.Properties {
			try(name)
		}
	}
	if key != "" {
		return key, rest
	}
	if end := strings.IndexAny(at[1:], ".["); end >= 0 {
		return at[:end+1], at[end+1:]
	}
	return at, ""
}
