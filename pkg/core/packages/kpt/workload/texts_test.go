package workload_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the problems of packages, which users read in status.errors of Bindings.
func TestTexts(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	var texts []golden.Text
	for _, tc := range []struct {
		heading string
		files   kpt.Files
	}{
		{"invalid YAML", kpt.Files{"a.yaml": "a: [\n"}},
		{"objects and others", kpt.Files{"a.yaml": object + "---\n- a\n"}},
		{"no kind", kpt.Files{"a.yaml": "apiVersion: v1\nmetadata: {name: a}\n"}},
		{"an item without kind", kpt.Files{"a.yaml": "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n"}},
		{"no metadata", kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\n"}},
		{"generateName", kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\n"}},
		{"a name that is a number", kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1}\n"}},
		{"an invalid namespace", kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: B}\n"}},
		{"an invalid List", kpt.Files{"a.yaml": "apiVersion: v1\nkind: List\nitems: {}\n"}},
		{"an invalid list of one kind", kpt.Files{"a.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems: [a]\n"}},
		{"a kind that is never delivered", kpt.Files{"a.yaml": "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a}\n"}},
		{"a duplicate object", kpt.Files{"a.yaml": object, "b.yaml": object, "c.yaml": object}},
	} {
		w, err := workload.Read(tc.files, nil)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: strings.Join(w.Report(), "\n")})
	}
	golden.Texts(t, texts...)
}
