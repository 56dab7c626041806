package manifest_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

const text = `
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
---
# Nothing.
`

func TestRender(t *testing.T) {
	files := fstest.MapFS{
		"dir/a.yaml":      {Data: []byte(text)},
		"dir/b.yaml":      {Data: []byte(text)},
		"dir/off.yaml":    {Data: []byte("kind: Off")},
		"bad/syntax.yaml": {Data: []byte("{{")},
		"bad/yaml.yaml":   {Data: []byte("a: b: c")},
	}
	values := map[string]any{"Name": "somebody", "Labels": map[string]string{}}
	skip := func(file string) bool { return strings.Contains(file, "off") }
	objs, err := manifest.Render(files, []string{"dir/*.yaml"}, values, skip)
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
	for pattern, message := range map[string]string{
		"dir/missing.yaml": `render manifest "dir/missing.yaml": not found`,
		"bad/syntax.yaml":  `render manifest "bad/syntax.yaml": `,
		"bad/yaml.yaml":    `render manifest "bad/yaml.yaml": `,
	} {
		if _, err := manifest.Render(files, []string{pattern}, values, nil); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("Render(%q) = %v, want an error with %q", pattern, err, message)
		}
	}
}

func TestAccount(t *testing.T) {
	account := manifest.Account{Namespace: "ns", Name: "it"}
	got := account.Objects("role", "binding", manifest.Rule("apps", "deployments", "get"))
	want, err := manifest.Parse(strings.NewReader(`
{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: ns, name: it}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: role}
rules: [{apiGroups: [apps], resources: [deployments], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: binding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: role}
subjects: [{kind: ServiceAccount, namespace: ns, name: it}]
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, want := account.User()+" "+account.String(), "system:serviceaccount:ns:it ns/it"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
