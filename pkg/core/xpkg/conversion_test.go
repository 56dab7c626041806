package xpkg

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestNameWebhooks(t *testing.T) {
	t.Parallel()
	crd := func(conversion string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		text := "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}, spec: {group: example.org, conversion: " + conversion + "}}"
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for name, c := range map[string]struct {
		conversion, want string
	}{
		"None":       {"{strategy: None}", "{strategy: None}"},
		"OfAService": {"{strategy: Webhook, webhook: {clientConfig: {service: {name: a, namespace: b}}}}", "{strategy: Webhook, webhook: {clientConfig: {service: {name: a, namespace: b}}}}"},
		"AtAURL":     {"{strategy: Webhook, webhook: {clientConfig: {url: 'https://a'}}}", "{strategy: Webhook, webhook: {clientConfig: {url: 'https://a'}}}"},
		"OnlyAPath": {
			"{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {path: /convert}}}}",
			"{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {path: /convert, name: unnamed-conversion-webhook, namespace: default}}}}",
		},
		"Nothing": {
			"{strategy: Webhook}",
			"{strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: unnamed-conversion-webhook, namespace: default}}}}",
		},
	} {
		before := crd(c.conversion)
		got, unnamed := NameWebhooks([]*unstructured.Unstructured{before})
		if diff := cmp.Diff(crd(c.want).Object, got[0].Object); diff != "" || (len(unnamed) > 0) != (c.conversion != c.want) {
			t.Errorf("%s: unnamed are %v (-want +got):\n%s", name, unnamed, diff)
		}
		if diff := cmp.Diff(crd(c.conversion).Object, before.Object); diff != "" {
			t.Errorf("%s: the object of the package changed: %s", name, diff)
		}
	}
}
