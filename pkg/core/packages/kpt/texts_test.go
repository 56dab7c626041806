package kpt_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the errors in files of packages and in Kptfiles.
func TestTexts(t *testing.T) {
	many := kpt.Files{}
	for i := range 15 {
		many[fmt.Sprintf("../%02d", i)] = ""
	}
	var texts []golden.Text
	for _, tc := range []struct {
		heading string
		files   kpt.Files
	}{
		{"a path outside of the package", kpt.Files{"../a": ""}},
		{"many such paths", many},
		{"a long path", kpt.Files{strings.Repeat("a", 600): ""}},
		{"a path with a backslash", kpt.Files{`a\b`: ""}},
		{"a git directory", kpt.Files{".git/config": ""}},
		{"a file that is a directory", kpt.Files{"a": "", "a/b": ""}},
		{"a binary file", kpt.Files{"a": "\xff"}},
		{"a zero byte", kpt.Files{"a": "\x00"}},
		{"a large Kptfile", kpt.Files{"Kptfile": strings.Repeat("a", 1<<20)}},
		{"a large package", kpt.Files{"a": strings.Repeat("a", 7<<20)}},
	} {
		texts = append(texts, golden.Text{Heading: tc.heading, Text: strings.Join(tc.files.Check(), "\n")})
	}
	const head = "apiVersion: kpt.dev/v1\nkind: Kptfile\n"
	for _, tc := range []struct{ heading, content string }{
		{"an empty Kptfile", ""},
		{"a Kptfile that is a list", "- a\n"},
		{"a Kptfile that is not valid YAML", "a: [\n"},
		{"a Kptfile of another kind", "kind: ConfigMap\n"},
		{"a Kptfile with a wrong type", head + "pipeline: {mutators: [a]}\n"},
		{"a Kptfile with an alias", head + "metadata: &a {name: x}\ninfo: *a\n"},
	} {
		_, err := kpt.ParseKptfile(tc.content)
		if err == nil {
			t.Fatalf("%s: no error", tc.heading)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: err.Error()})
	}
	golden.Texts(t, texts...)
}
