package transform

import (
	"encoding/json"
	"reflect"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// written answers which fields of an object its users wrote, and which the API server of the WDS
// set: by a default, by an allocation, or in admission. An API server records who wrote a field,
// but for one case: who creates or replaces an object without server-side apply owns the fields
// with defaults, too. The annotation of `kubectl apply` tells them apart. Labels that are edited
// later change nothing.
type written struct {
	// raw: the object was not read from an API server, so that all of it was written: it is of a
	// package.
	raw bool
	// configuration is what was applied by `kubectl apply`, nil if that is not known.
	configuration map[string]any
	// said are the fields that someone wrote, each by name; wrote are those and the defaults that
	// the object got with them.
	said, wrote []map[string]any
}

// beforeFirstApply is the manager of all fields of an object without managedFields that is applied
// server-side for the first time.
const beforeFirstApply = "before-first-apply"

// writtenIn reads who wrote the fields of an object, whose metadata must be complete.
func writtenIn(obj map[string]any) *written {
	metadata, _ := obj["metadata"].(map[string]any)
	uid, _ := metadata["uid"].(string)
	w := &written{raw: uid == ""}
	w.configuration = configurationOf(annotation(obj, lastApplied))
	entries, _ := metadata["managedFields"].([]any)
	for _, entry := range entries {
		e, _ := entry.(map[string]any)
		fields, _ := e["fieldsV1"].(map[string]any)
		switch {
		case e["subresource"] == "scale", e["operation"] == "Apply" && e["subresource"] == nil:
			w.said = append(w.said, fields)
			w.wrote = append(w.wrote, fields)
		case e["subresource"] == nil && e["manager"] != beforeFirstApply:
			w.wrote = append(w.wrote, fields)
		}
	}
	return w
}

// configurationOf reads the annotation of `kubectl apply`. What was read from an API server before
// is no configuration: it has what that server assigned.
func configurationOf(text string) map[string]any {
	var configuration map[string]any
	if text == "" || kjson.Unmarshal([]byte(text), &configuration) != nil {
		return nil
	}
	if metadata, _ := configuration["metadata"].(map[string]any); metadata["uid"] != nil {
		return nil
	}
	return configuration
}

// key selects an element of a list by some of its fields.
type key map[string]any

// isSaid reports whether someone certainly wrote the field at path, whose elements are names of
// fields and keys.
func (w *written) isSaid(path ...any) bool {
	return w.raw || lookup(w.configuration, path) != nil || ownedBy(w.said, path)
}

// isWritten reports whether someone wrote the field at path, or it got its default when someone
// wrote the object. What was allocated is not written, even if a configuration has the field with
// an empty value.
func (w *written) isWritten(path ...any) bool {
	if w.raw {
		return true
	}
	if configured := lookup(w.configuration, path); configured != nil {
		return !reflect.ValueOf(configured).IsZero()
	}
	return ownedBy(w.wrote, path)
}

// lookup returns the value at path, nil if there is none.
func lookup(value any, path []any) any {
	for _, element := range path {
		switch element := element.(type) {
		case string:
			fields, _ := value.(map[string]any)
			value = fields[element]
		case key:
			value = element.in(value)
		}
	}
	return value
}

// in returns the element of a list that has the key. A protocol that is not named is TCP.
func (k key) in(value any) any {
	list, _ := value.([]any)
	for _, item := range list {
		fields, _ := item.(map[string]any)
		is := true
		for name, want := range k {
			have := fields[name]
			if have == nil && name == "protocol" {
				have = "TCP"
			}
			is = is && reflect.DeepEqual(have, want) // of a package, they may be anything
		}
		if is {
			return item
		}
	}
	return nil
}

// ownedBy reports whether one of the sets of fields has path, or a list or map that is owned as a
// whole and has it.
func ownedBy(sets []map[string]any, path []any) bool {
	for _, fields := range sets {
		owned := true
		for _, element := range path {
			below, _ := fields[nameOf(element)].(map[string]any)
			if below == nil {
				owned = false
				break
			}
			if fields = below; len(fields) == 0 {
				break
			}
		}
		if owned {
			return true
		}
	}
	return false
}

// nameOf returns an element of a path as managedFields have it.
func nameOf(element any) string {
	if k, ok := element.(key); ok {
		raw, _ := json.Marshal(k) // of numbers and strings, by sorted names
		return "k:" + string(raw)
	}
	name, _ := element.(string)
	return "f:" + name
}
