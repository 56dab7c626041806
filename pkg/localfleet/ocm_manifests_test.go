package localfleet

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRender(t *testing.T) {
	manifest := `
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Name }}
  annotations:
    example.com/gone-: ""
    example.com/stays: "yes"
  labels:
    {{ range $k, $v := .Labels }}
    "{{ $k }}": "{{ $v }}"
    {{ end }}
`
	f := &Fleet{cfg: Config{OCM: fstest.MapFS{
		"dir/a.yaml": {Data: []byte(manifest)},
		"dir/b.yaml": {Data: []byte(manifest)},
	}}}
	objs, err := f.render([]string{"dir/*.yaml"}, map[string]any{"Name": "somebody", "Labels": map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	want := []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": "somebody", "annotations": map[string]any{"example.com/stays": "yes"}},
	}}}
	if diff := cmp.Diff(want, objs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := f.render([]string{"dir/missing.yaml"}, nil); err == nil || !strings.Contains(err.Error(), `"dir/missing.yaml": not found`) {
		t.Errorf("a missing manifest: %v", err)
	}
}

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
