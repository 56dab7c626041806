package status

import "reflect"

// MergePatch returns the JSON merge patch (RFC 7386) that changes before into after, and whether it
// changes anything. A field that neither of them has stays unchanged in the patched object.
//
// A merge patch cannot set null, so a field that is null counts as absent. The patch shares values
// with its arguments.
func MergePatch(before, after map[string]any) (patch map[string]any, changed bool) {
	patch = map[string]any{}
	for key, value := range before {
		if value != nil && after[key] == nil {
			patch[key] = nil
		}
	}
	for key, value := range after {
		if value == nil {
			continue
		}
		old := before[key]
		object, isObject := value.(map[string]any)
		if !isObject {
			if !reflect.DeepEqual(old, value) {
				patch[key] = value
			}
			continue
		}
		oldObject, wasObject := old.(map[string]any)
		if inner, innerChanged := MergePatch(oldObject, object); innerChanged || !wasObject {
			patch[key] = inner
		}
	}
	return patch, len(patch) > 0
}
