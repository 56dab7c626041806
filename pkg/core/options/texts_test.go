package options_test

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors that users read in status.errors.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, tc := range []struct {
		heading     string
		annotations map[string]string
	}{
		{"an unknown value", map[string]string{apply: "ssa"}},
		{"an unknown value for removals", map[string]string{onRemoval: "keep"}},
		{"a field of an element of a list", map[string]string{ignore: ".spec.template.spec.containers[0].image"}},
		{"a top-level field", map[string]string{ignore: ".data"}},
		{"a field that identifies the object", map[string]string{ignore: ".metadata.name"}},
		{"ignored fields with update", map[string]string{apply: "update", ignore: ".spec.replicas"}},
		{"several invalid annotations", map[string]string{apply: "x", onRemoval: "y"}},
	} {
		_, err := options.Parse(tc.annotations)
		if err == nil {
			t.Fatalf("%s: no error", tc.heading)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: err.Error()})
	}
	golden.Texts(t, texts...)
}
