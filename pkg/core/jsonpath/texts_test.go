package jsonpath_test

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/jsonpath"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors in paths, which users read in status.errors of CustomTransforms.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, path := range []string{
		"spec", "$spec", "$.a-b", "$..a", "$.a[1:2]", "$.a[01]", "$.a[-0]", "$.a[", `$.a["b]`, `$["\uD83D"]`, "$.a[?@.b || @.c]", "$.a[?!@.b]",
		"$.a[?@.b < 1]", "$.a[?@.b == @.c]", "$.a[?1 == 1]", "$.a[?@.* == 1]", "$.a[?$.b]", "$.a[?@.b == 1e999]",
	} {
		_, err := jsonpath.Parse(path)
		if err == nil {
			t.Fatalf("%s: no error", path)
		}
		texts = append(texts, golden.Text{Heading: path, Text: err.Error()})
	}
	golden.Texts(t, texts...)
}
