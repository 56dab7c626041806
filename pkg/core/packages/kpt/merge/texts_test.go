package merge_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the conflicts and errors of upgrades. Users read conflicts in the condition
// MergeConflicts, and errors in the response to the request.
func TestTexts(t *testing.T) {
	ports := func(port string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: n}\nspec:\n  ports:\n" + port
	}
	const a, b = "  - {name: a, port: 1}\n", "  - {name: b, port: 2}\n"
	var texts []golden.Text
	for _, tc := range []struct {
		heading                  string
		strategy                 merge.Strategy
		original, updated, local files
	}{
		{"a field", "", files{"a.yaml": configMap("a", "k: v")}, files{"a.yaml": configMap("a", "k: w")}, files{"a.yaml": configMap("a", "k: x")}},
		{"a field with a dot", "", files{"a.yaml": configMap("a", "k.l: v")}, files{"a.yaml": configMap("a", "k.l: w")}, files{"a.yaml": configMap("a", "k.l: x")}},
		{"an element deleted locally", "", files{"a.yaml": ports(a + b)}, files{"a.yaml": ports(a + strings.Replace(b, "2}", "2, targetPort: 3}", 1))}, files{"a.yaml": ports(a)}},
		{"an element deleted upstream", "", files{"a.yaml": ports(a + b)}, files{"a.yaml": ports(a)}, files{"a.yaml": ports(a + strings.Replace(b, "2}", "2, targetPort: 3}", 1))}},
		{"a field deleted locally", "", files{"a.yaml": configMap("a", "k: v", "l: m")}, files{"a.yaml": configMap("a", "k: w", "l: m")}, files{"a.yaml": configMap("a", "l: m")}},
		{"an object deleted locally", "", files{"a.yaml": configMap("a", "k: v")}, files{"a.yaml": configMap("a", "k: w")}, files{}},
		{"an object deleted upstream", "", files{"a.yaml": configMap("a", "k: v")}, files{}, files{"a.yaml": configMap("a", "k: w")}},
		{"a text file", "", files{"a.txt": "1"}, files{"a.txt": "2"}, files{"a.txt": "3"}},
		{"a subpackage deleted locally", "", files{"s/Kptfile": kptfile("s")}, files{"s/Kptfile": kptfile("s", "info: {site: x}")}, files{}},
		{"a subpackage added on both sides", "", files{}, files{"s/Kptfile": kptfile("s")}, files{"s/Kptfile": kptfile("t")}},
		{"an unknown strategy", "theirs", nil, nil, nil},
		{"fast-forward with local changes", merge.FastForward, files{"a": "1", "b": "1"}, nil, files{"a": "2", "c": "1"}},
		{"a file that is a directory", "", files{}, files{"a": "1"}, files{"a/b": "2"}},
		{"too many documents", "", files{}, files{"a.yaml": strings.Repeat("---\n", 100_000)}, files{}},
		{"invalid YAML", "", files{"a.yaml": configMap("a")}, files{"a.yaml": "a: [\n"}, files{"a.yaml": "b: {\n"}},
		{"an invalid Kptfile", "", files{}, files{"Kptfile": "a: b\n"}, files{"Kptfile": kptfile("a")}},
		{"a duplicate object", "", files{}, files{"a.yaml": "a: 1\n"}, files{"a.yaml": docs(configMap("a"), configMap("a"))}},
		{"a duplicate field", "", files{"a.yaml": configMap("a")}, files{"a.yaml": configMap("a", "k: v")}, files{"a.yaml": configMap("a", "k: w", "k: x")}},
		{"a field whose name is a list", "", files{"a.yaml": configMap("a")}, files{"a.yaml": configMap("a", "k: v")}, files{"a.yaml": configMap("a", "? [a]", ": x")}},
		{"documents without separator", "", files{"a.yaml": "a: 1\n"}, files{"a.yaml": "a: 2\n"}, files{"a.yaml": "a: 3\n...\nb: 1\n"}},
		{"many aliases", "", files{"a.yaml": "a: 1\n"}, files{"a.yaml": "a: 2\n"}, files{"a.yaml": bomb()}},
	} {
		got, err := merge.Merge(tc.strategy, tc.original, tc.updated, tc.local, nil)
		var lines []string
		for _, c := range got.Conflicts {
			lines = append(lines, c.String())
		}
		if err != nil {
			lines = append(lines, "error: "+err.Error())
		}
		if len(lines) == 0 {
			t.Errorf("%s: neither conflict nor error", tc.heading)
		}
		texts = append(texts, golden.Text{Heading: tc.heading, Text: strings.Join(lines, "\n")})
	}
	golden.Texts(t, texts...)
}
