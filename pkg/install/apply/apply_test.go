package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestBatches(t *testing.T) {
	object := func(kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	}
	got := batches([]*unstructured.Unstructured{object("Role"), object("Namespace"), object("ConfigMap"), object("CustomResourceDefinition")})
	want := [2][]*unstructured.Unstructured{
		{object("Namespace"), object("CustomResourceDefinition")},
		{object("Role"), object("ConfigMap")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIsEstablished(t *testing.T) {
	for name, tc := range map[string]struct {
		status map[string]any
		want   bool
	}{
		"no status":       {},
		"not established": {status: map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "False"}}}},
		"other condition": {status: map[string]any{"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}}}},
		"established":     {status: map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := isEstablished(&unstructured.Unstructured{Object: map[string]any{"status": tc.status}})
			if err != nil || got != tc.want {
				t.Errorf("isEstablished() = %t, %v, want %t", got, err, tc.want)
			}
		})
	}
}
