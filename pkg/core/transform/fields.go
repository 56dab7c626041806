package transform

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// ErrList says that what a path leads to has lists of objects.
var ErrList = errors.New("has a list of objects")

// simple matches the keys that are in the path of a field as they are.
var simple = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$-]*$`)

// Leaves returns the fields of the object that paths lead to, such as .spec.replicas, sorted: of a
// map its fields. Every other value is one field, as an API server treats it; but of a list of
// objects it may not, and the error is ErrList.
func (o Object) Leaves(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	leaves := map[string]bool{}
	err := o.visit(paths, func(_ map[string]any, _, leaf string) { leaves[leaf] = true })
	return slices.Sorted(maps.Keys(leaves)), err
}

// Without returns the object without the fields that paths lead to, and without the maps of which
// nothing is left then: a cluster may treat a map as one value, which an empty one would replace.
func (o Object) Without(paths []string) (Object, error) {
	var obj map[string]any
	if err := kjson.Unmarshal(o.JSON, &obj); err != nil {
		return Object{}, err
	}
	for _, path := range paths {
		parent, key := ParentOf(obj, path)
		if _, ok := parent[key]; !ok {
			continue
		}
		source, recorded := sourceIn(parent[key], path)
		removeField(obj, keysOf(path))
		if recorded {
			setSource(obj, source)
		}
	}
	return Pipeline{}.Apply(o.Ref, obj)
}

// removeField removes a field, and the maps around it that are empty then.
func removeField(in map[string]any, keys []string) {
	if len(keys) == 1 {
		delete(in, keys[0])
		return
	}
	if inner, ok := in[keys[0]].(map[string]any); ok {
		removeField(inner, keys[1:])
		if len(inner) == 0 {
			delete(in, keys[0])
		}
	}
}

// Only returns the identity of the object and those of the leaves that it has.
func (o Object) Only(leaves ...string) (Object, error) {
	metadata := map[string]any{"name": o.Ref.Name}
	if o.Ref.Namespace != "" {
		metadata["namespace"] = o.Ref.Namespace
	}
	only := map[string]any{"apiVersion": o.Kind.GroupVersion().String(), "kind": o.Kind.Kind, "metadata": metadata}
	for _, leaf := range leaves {
		var obj map[string]any
		if err := kjson.Unmarshal(o.JSON, &obj); err != nil {
			return Object{}, err
		}
		prune(obj, "", leaf)
		merge(only, obj)
	}
	return Pipeline{}.Apply(o.Ref, only)
}

// With returns the object with the fields of another one, which replace its own.
func (o Object) With(fields Object) (Object, error) {
	var obj, more map[string]any
	if err := kjson.Unmarshal(o.JSON, &obj); err != nil {
		return Object{}, err
	}
	if err := kjson.Unmarshal(fields.JSON, &more); err != nil {
		return Object{}, err
	}
	merge(obj, more)
	return Pipeline{}.Apply(o.Ref, obj)
}

// Covers reports whether a field is one that a path leads to, or is in one.
func Covers(path, leaf string) bool {
	rest, ok := strings.CutPrefix(leaf, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// ParentOf returns the map that has the field at a path, such as .spec.replicas, and its key there.
// The map is nil if there is none.
func ParentOf(obj map[string]any, path string) (parent map[string]any, key string) {
	keys := keysOf(path)
	for _, key := range keys[:len(keys)-1] {
		obj, _ = obj[key].(map[string]any)
	}
	return obj, keys[len(keys)-1]
}

func keysOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// sourceIn returns the annotation of ours that is in the annotations. It is not the user's, and
// stays.
func sourceIn(value any, path string) (string, bool) {
	if annotations, ok := value.(map[string]any); ok && path == ".metadata.annotations" {
		source, ok := annotations[controlv1alpha1.AnnotationSourceGeneration].(string)
		return source, ok
	}
	return "", false
}

// visit calls f with the map, the key and the path of each leaf.
func (o Object) visit(paths []string, f func(parent map[string]any, key, leaf string)) error {
	var obj map[string]any
	if err := kjson.Unmarshal(o.JSON, &obj); err != nil {
		return err
	}
	for _, path := range paths {
		parent, key := ParentOf(obj, path)
		if _, ok := parent[key]; !ok {
			continue
		}
		if err := visitAt(parent, key, path, f); err != nil {
			return err
		}
	}
	return nil
}

func visitAt(parent map[string]any, key, at string, f func(parent map[string]any, key, leaf string)) error {
	switch value := parent[key].(type) {
	case map[string]any:
		for k := range value {
			if k == controlv1alpha1.AnnotationSourceGeneration && at == ".metadata.annotations" {
				continue
			}
			if err := visitAt(value, k, join(at, k), f); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for _, element := range value {
			switch element.(type) {
			case map[string]any, []any:
				return ErrList
			}
		}
	}
	f(parent, key, at)
	return nil
}

// join returns the path of a field of the map at a path.
func join(path, key string) string {
	if simple.MatchString(key) {
		return path + "." + key
	}
	return path + "[" + strconv.Quote(key) + "]"
}

// prune removes everything but a leaf from the map at a path.
func prune(m map[string]any, at, leaf string) {
	for key, value := range m {
		path := join(at, key)
		inner, ok := value.(map[string]any)
		switch {
		case path == leaf:
		case ok && Covers(path, leaf):
			prune(inner, path, leaf)
		default:
			delete(m, key)
		}
	}
}

// merge adds the fields of one map to another one.
func merge(into, from map[string]any) {
	for key, value := range from {
		inner, ok := value.(map[string]any)
		if same, both := into[key].(map[string]any); ok && both {
			merge(same, inner)
			continue
		}
		into[key] = value
	}
}
