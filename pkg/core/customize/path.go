package customize

import (
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// path is the path of a field: strings are keys of maps, ints are indexes of lists.
type path []any

// String returns the path as .spec.containers[0]["odd key"].
func (p path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case int:
			b.WriteString("[" + strconv.Itoa(step) + "]")
		case string:
			if token.IsIdentifier(step) || token.IsKeyword(step) {
				b.WriteString("." + step)
			} else {
				b.WriteString("[" + strconv.Quote(step) + "]")
			}
		}
	}
	return b.String()
}

// identifies reports whether the field identifies the object.
func (p path) identifies() bool {
	switch p.String() {
	case ".apiVersion", ".kind", ".metadata.name", ".metadata.namespace":
		return true
	}
	return false
}

// set sets the field to a value.
func (p path) set(object map[string]any, value any) {
	var at any = object
	for i, step := range p {
		last := i == len(p)-1
		switch step := step.(type) {
		case string:
			m, ok := at.(map[string]any)
			if !ok {
				return
			}
			if last {
				m[step] = value
			}
			at = m[step]
		case int:
			l, ok := at.([]any)
			if !ok || step >= len(l) {
				return
			}
			if last {
				l[step] = value
			}
			at = l[step]
		}
	}
}

// walk visits every string in the value, except keys, in order. Visit must not keep the path.
func walk(at path, value any, visit func(at path, text string)) {
	switch v := value.(type) {
	case string:
		visit(at, v)
	case []any:
		for i, child := range v {
			walk(append(at, i), child, visit)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walk(append(at, key), v[key], visit)
		}
	}
}
