package dynamicinformer

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ignored is the field of an APIService that is stored without effect.
const ignored = "ignored"

// keepAPIService drops all but the metadata, and notes whether the space ignores the APIService: a
// WDS takes one of another server for that of an API which it serves itself (package
// cmd/starling/wdsserver), and its status says so. That an API is available matters only as an
// event. An informer may call it again with what it returned: it does so with the result of a list
// that is streamed.
func keepAPIService(obj any) (any, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	if _, noted := object.Object[ignored]; noted {
		return object, nil
	}
	service, _, _ := unstructured.NestedMap(object.Object, "spec", "service") // what the API server stored is a map
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	isLocal := func(condition any) bool {
		c, is := condition.(map[string]any)
		return is && c["type"] == "Available" && c["reason"] == "Local"
	}
	object.Object[ignored] = service != nil && slices.ContainsFunc(conditions, isLocal)
	delete(object.Object, "spec")
	delete(object.Object, "status")
	object.SetManagedFields(nil)
	return object, nil
}

// obeyed returns the names of those APIServices that the space does not ignore.
func obeyed(apiServices []any) []string {
	var names []string
	for _, item := range apiServices {
		object, ok := item.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if ignores, _ := object.Object[ignored].(bool); !ignores {
			names = append(names, object.GetName())
		}
	}
	return names
}
