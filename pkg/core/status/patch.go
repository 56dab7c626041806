package status

import "reflect"

// MergePatch returns the JSON merge patch (RFC 7386) that makes one object the other, and whether there is anything to
// change. Only the fields of the two are mentioned: a field that neither has stays as it is in the object that is patched.
//
// A merge patch cannot say null, so a field that is null counts as absent. The patch shares values with its arguments.
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
