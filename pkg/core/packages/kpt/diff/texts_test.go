package diff

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the notes about differences that are not shown. The CLI shows them after the name
// of the file or object.
func TestTexts(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	var texts []golden.Text
	for _, tc := range []struct{ heading, file, before, after string }{
		{"invalid YAML", "a.yaml", secret, "a: [\n"},
		{"a file of objects becomes one without", "a.yaml", configMap, "a: 1\n"},
		{"the order of objects", "a.yaml", deployment + "---\n" + configMap, configMap + "---\n" + deployment},
		{"a template of a Secret", "secret.tpl", secret, ""},
		{"a comment in a Secret", "a.yaml", secret, secret + "# more\n"},
	} {
		note := ""
		for _, e := range Packages(kpt.Files{tc.file: tc.before}, kpt.Files{tc.file: tc.after}) {
			note += e.Note
		}
		if note == "" {
			t.Errorf("%s: no note", tc.heading)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: note})
	}
	golden.Texts(t, texts...)
}
