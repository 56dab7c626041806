package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/schema"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors of objects, which users read as results of kubeconform.
func TestTexts(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.com
  names: {kind: Thing}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        maxProperties: 4
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 10, multipleOf: 2}
              small: {type: integer, format: int32}
              less: {type: number, maximum: 1, exclusiveMaximum: true}
              color: {type: string, enum: [red, blue]}
              code: {type: string, pattern: '^[a-z]+$', maxLength: 3, minLength: 1}
              port: {x-kubernetes-int-or-string: true}
              hosts: {type: array, minItems: 1, maxItems: 2, uniqueItems: true, items: {type: string}}
              any: {anyOf: [{type: string}, {type: integer}]}
              one: {oneOf: [{type: integer}, {type: number}]}
              not: {not: {enum: [x]}}
`
	var custom schema.Custom
	if err := custom.Add(yaml.MustParse(definition)); err != nil {
		t.Fatal(err)
	}
	head := func(kind string) string {
		return "apiVersion: example.com/v1\nkind: " + kind + "\nmetadata: {name: a}\n"
	}
	var texts []golden.Text
	for _, tc := range []struct {
		heading, object string
		builtin         bool
	}{
		{"types", "spec: {replicas: [1], selector: x, template: {spec: {containers: [{name: a, image: 1, ports: [{containerPort: a}], resources: {limits: {cpu: {}}}}]}}}", true},
		{"missing fields", "spec: {template: {spec: {containers: [{image: a}]}}}", true},
		{"unknown fields", "spec: {size: 2}\nspek: {}\n", false},
		{"a missing field", "spec: {}", false},
		{"numbers", "spec: {size: 0, small: 3000000000, less: 1}", false},
		{"a large number", "spec: {size: 13}", false},
		{"an unsupported value", "spec: {size: 2, color: green}", false},
		{"strings", "spec: {size: 2, code: LONG}", false},
		{"an empty string", "spec: {size: 2, code: ''}", false},
		{"an integer or a string", "spec: {size: 2, port: true}", false},
		{"an empty list", "spec: {size: 2, hosts: []}", false},
		{"a long list with duplicates", "spec: {size: 2, hosts: [a, b, a]}", false},
		{"alternatives", "spec: {size: 2, any: true, one: 3, not: x}", false},
		{"too many fields", "spec: {size: 2}\na: 1", false},
		{"a duplicate field", "spec: {size: 2, size: 4}", false},
	} {
		s, object := custom.Find("example.com/v1", "Thing"), head("Thing")+tc.object
		if tc.builtin {
			s, object = schema.Builtin("apps/v1", "Deployment"), strings.Replace(head("Deployment"), "example.com", "apps", 1)+tc.object
		}
		var lines []string
		for _, wrong := range s.Validate(yaml.MustParse(object), tc.heading == "unknown fields") {
			lines = append(lines, strings.TrimPrefix(wrong.Error(), ": "))
		}
		if len(lines) == 0 {
			t.Errorf("%s: no error", tc.heading)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: strings.Join(lines, "\n")})
	}
	err := custom.Add(yaml.MustParse(strings.Replace(definition, "minimum: 1", "minimum: low", 1)))
	texts = append(texts, golden.Text{Heading: "an invalid CustomResourceDefinition", Text: fmt.Sprint(err)})
	golden.Texts(t, texts...)
}
