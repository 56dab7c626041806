package customtransform

import (
	"testing"

	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors and warnings in the status of a CustomTransform.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, remove := range []string{"$", "$.", "$..name", "data", "$.metadata.name", "$.spec[?@.x ~ 1]"} {
		for _, text := range Status(custom("x", settings, remove), nil, nil).Errors {
			texts = append(texts, golden.Text{Heading: "status.errors, for " + remove, Text: text})
		}
	}
	for _, text := range Status(custom("x", settings), []string{"x", "a"}, nil).Warnings {
		texts = append(texts, golden.Text{Heading: "status.warnings", Text: text})
	}
	golden.Texts(t, texts...)
}
