package manifest

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// New returns an object without content. The namespace is "" if its kind is not namespaced.
func New(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	obj.SetName(name)
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	return obj
}

// Namespace returns a Namespace. It has the label that API servers add: without it, server-side
// apply would remove the label, and the API server add it again, in each run.
func Namespace(name string) *unstructured.Unstructured {
	obj := New("v1", "Namespace", "", name)
	obj.SetLabels(map[string]string{corev1.LabelMetadataName: name})
	return obj
}
