package schema_test

import (
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
)

func TestNamespaced(t *testing.T) {
	for _, tc := range []struct {
		version, kind     string
		namespaced, known bool
	}{
		{"v1", "Pod", true, true},
		{"v1", "Namespace", false, true},
		{"apps/v1", "Deployment", true, true},
		{"apps/v1beta1", "Deployment", true, true}, // not served any more
		{"rbac.authorization.k8s.io/v1", "ClusterRole", false, true},
		{"autoscaling/v2", "HorizontalPodAutoscaler", true, true},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", false, true},
		{"example.com/v1", "Thing", false, false},
		{"v2", "Thing", false, false},
	} {
		if namespaced, known := schema.Namespaced(tc.version, tc.kind); namespaced != tc.namespaced || known != tc.known {
			t.Errorf("%s %s: %v, %v", tc.version, tc.kind, namespaced, known)
		}
	}
}

func TestTypeAt(t *testing.T) {
	s := schema.Builtin("apps/v1", "Deployment")
	for _, tc := range []struct {
		path []string
		want string
	}{
		{[]string{"spec", "replicas"}, "integer"},
		{[]string{"metadata", "labels", "x"}, "string"},
		{[]string{"spec", "template", "spec", "containers", "[0]", "image"}, "string"},
		{[]string{"spec", "template", "spec", "containers", "[0]", "ports", "[1]", "containerPort"}, "integer"},
		{[]string{"spec", "strategy", "rollingUpdate", "maxSurge"}, ""}, // a number or text
		{[]string{"spec", "unknown"}, ""},
	} {
		if got := s.TypeAt(tc.path); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.path, got, tc.want)
		}
	}
}

// Validation ends for a recursive schema and a deeply nested object.
func TestValidateRecursiveSchema(t *testing.T) {
	s := schema.Builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition")
	deep := "type: object"
	for range 150 {
		deep = "properties: {a: {" + deep + "}}"
	}
	object := yaml.MustParse("spec: {versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {" + deep + "}}}]}")
	if violations := s.Validate(object, true); len(violations) == 0 {
		t.Error("no error for a missing required field")
	}
}

func BenchmarkUnpack(b *testing.B) {
	for b.Loop() {
		if _, err := schema.Definitions(); err != nil {
			b.Fatal(err)
		}
	}
}
