package transport

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var listAll = metav1.ListOptions{}

// widgetCRD returns the spec of a CRD for Widgets, which may hold anything.
func widgetCRD(group string) map[string]any {
	return map[string]any{"spec": map[string]any{
		"group": group, "scope": "Namespaced",
		"names": map[string]any{"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
		}},
	}}
}
