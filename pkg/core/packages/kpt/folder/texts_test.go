package folder

import (
	"testing"

	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors in the file that identifies the pulled revision. The CLI shows them
// after the name of the file.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, tc := range []struct{ heading, content string }{
		{"an empty file", ""},
		{"two documents", "a: b\n---\na: b\n"},
		{"a scalar", "a\n"},
		{"invalid YAML", "{"},
		{"a list as name", "kind: KptRevisionMetadata\nmetadata:\n  name: [a]\n  namespace: {}\n"},
		{"another kind", "kind: Kptfile\n"},
		{"no name", "kind: KptRevisionMetadata\n"},
		{"no resourceVersion", "kind: KptRevisionMetadata\nmetadata: {name: a}\n"},
	} {
		_, err := ParseMetadata(tc.content)
		if err == nil {
			t.Fatalf("%s: no error", tc.heading)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: err.Error()})
	}
	golden.Texts(t, texts...)
}
