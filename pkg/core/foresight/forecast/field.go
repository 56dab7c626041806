package forecast

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/starlinghq/starling/pkg/core/redact"
	"github.com/starlinghq/starling/pkg/core/render"
)

// Field is a field that differs.
type Field struct {
	// Path is as in ".spec.replicas" or ".data[a.b]".
	Path string `json:"path"`
	// Before and After are nil if there is no such field.
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// item describes an outcome.
func (c *Comparison) item(o outcome) Item {
	item := Item{Verb: o.verb, Ref: o.ref, Why: o.why, Conflict: o.conflict, Error: o.failed}
	for _, w := range []*World{c.after.world, c.before.world} {
		if object := w.Objects[o.ref]; object != nil && item.Kind == "" {
			item.Kind = object.Resource.Kind
		}
	}
	change := render.ChangeOf(o.had, o.gets, o.options)
	before, after := change.Before, change.After
	item.Before, item.After = before, after
	item.Fields = fieldsOf(before, after)
	if item.Kind == "Secret" && o.ref.Group == "" {
		for i := range item.Fields {
			item.Fields[i].hide()
		}
		item.Before, item.After = masked(before), masked(after)
	}
	return item
}

// fieldsOf returns the fields that differ, none if one of the objects does not exist.
func fieldsOf(before, after map[string]any) []Field {
	if before == nil || after == nil {
		return nil
	}
	var fields []Field
	differ("", before, after, &fields)
	return fields
}

// differ adds the fields that differ between two values.
func differ(path string, before, after any, fields *[]Field) {
	if reflect.DeepEqual(before, after) {
		return
	}
	was, wasMap := before.(map[string]any)
	is, isMap := after.(map[string]any)
	if wasMap && isMap {
		keys := map[string]bool{}
		for _, m := range []map[string]any{was, is} {
			for key := range m {
				keys[key] = true
			}
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			differ(path+segment(key), was[key], is[key], fields)
		}
		return
	}
	old, wasList := before.([]any)
	list, isList := after.([]any)
	if wasList && isList && len(old) == len(list) {
		for i := range old {
			differ(path+"["+strconv.Itoa(i)+"]", old[i], list[i], fields)
		}
		return
	}
	*fields = append(*fields, Field{Path: path, Before: before, After: after})
}

func segment(key string) string {
	for _, r := range key {
		if r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return "[" + key + "]"
		}
	}
	return "." + key
}

// hide hides the values of a field of a Secret.
func (f *Field) hide() {
	for _, value := range []*any{&f.Before, &f.After} {
		if *value != nil {
			*value = redact.Removed
		}
	}
}

// masked returns a Secret without its values; keys stay.
func masked(secret map[string]any) map[string]any {
	if secret == nil {
		return nil
	}
	out := maps.Clone(secret)
	for _, field := range []string{"data", "stringData"} {
		values, is := out[field].(map[string]any)
		if !is {
			continue
		}
		hidden := make(map[string]any, len(values))
		for key := range values {
			hidden[key] = redact.Removed
		}
		out[field] = hidden
	}
	return out
}
