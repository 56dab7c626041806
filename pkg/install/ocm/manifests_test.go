package ocm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestWebhooksByURL(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"webhooks": []any{map[string]any{
		"name": "w",
		"clientConfig": map[string]any{
			"caBundle": "x", "service": map[string]any{"name": "s", "path": "/validate", "port": int64(1)},
		},
	}}}}
	if err := webhooksByURL(obj, "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"webhooks": []any{map[string]any{
		"name": "w", "clientConfig": map[string]any{"caBundle": "x", "url": "https://127.0.0.1:1/validate"},
	}}}
	if diff := cmp.Diff(want, obj.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutConversion(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"conversion": map[string]any{"strategy": "Webhook"},
		"versions":   []any{map[string]any{"name": "v1alpha1", "storage": true}, map[string]any{"name": "v1beta1", "storage": false}},
	}}}
	if err := withoutConversion(obj); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"spec": map[string]any{"versions": []any{map[string]any{"name": "v1alpha1", "storage": true}}}}
	if diff := cmp.Diff(want, obj.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
