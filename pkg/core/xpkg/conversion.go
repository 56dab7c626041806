package xpkg

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// NameWebhooks returns objects of a package in which each conversion webhook names a service, as
// the API server requires: those that leave it to a package manager name
// pkgv1.UnnamedWebhookService, and unnamed has the names of their CustomResourceDefinitions. The
// objects are not changed: what is changed is a copy.
func NameWebhooks(objects []*unstructured.Unstructured) (named []*unstructured.Unstructured, unnamed []string) {
	client := []string{"spec", "conversion", "webhook", "clientConfig"}
	for _, o := range objects {
		strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy")
		url, _, _ := unstructured.NestedString(o.Object, append(client, "url")...)
		name, _, _ := unstructured.NestedString(o.Object, append(client, "service", "name")...)
		if o.GetKind() == "CustomResourceDefinition" && strategy == "Webhook" && url == "" && name == "" {
			unnamed = append(unnamed, o.GetName())
			o = o.DeepCopy()
			for field, value := range map[string]string{"name": pkgv1.UnnamedWebhookService, "namespace": "default"} {
				if err := unstructured.SetNestedField(o.Object, value, append(client, "service", field)...); err != nil {
					continue // a parent is no map: the API server will say so
				}
			}
			if versions, found, _ := unstructured.NestedStringSlice(o.Object, "spec", "conversion", "webhook", "conversionReviewVersions"); !found || len(versions) == 0 {
				_ = unstructured.SetNestedStringSlice(o.Object, []string{"v1"}, "spec", "conversion", "webhook", "conversionReviewVersions")
			}
		}
		named = append(named, o)
	}
	return named, unnamed
}
