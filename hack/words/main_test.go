package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindings(t *testing.T) {
	phrases, err := parse("# comment\n\ntells? whether\tReports whether\nanew\tagain\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file, content string
		want          []string
	}{
		"Comment": {"a.go", "package a\n\n// f tells whether it rains.\nfunc f() {}\n", []string{`a.go:3: "tells whether": say: Reports whether`}},
		"AcrossLines": {
			"a.go", "package a\n\n// f is a function that tells\n// whether it rains.\nfunc f() {}\n",
			[]string{`a.go:3: "tells // whether": say: Reports whether`},
		},
		"OtherComments":  {"a.go", "package a // it tells\n\n\n// whether it rains.\n", nil},
		"String":         {"a.go", "package a\n\nconst b = \"Made Anew\"\n", []string{`a.go:3: "Anew": say: again`}},
		"Identifier":     {"a.go", "package a\n\nconst anew = 1\n", nil},
		"WholeWords":     {"a.md", "renewed, anewish\n", nil},
		"Document":       {"a.md", "one\ntwo anew\n", []string{`a.md:2: "anew": say: again`}},
		"WideComment":    {"a.go", "package a\n\n// " + strings.Repeat("word ", 20) + "\n", []string{"a.go:3: 102 columns wide: wrap it at 100"}},
		"WideAfterTabs":  {"a.go", "package a\n\n\t\t// " + strings.Repeat("word ", 18) + "four\n", []string{"a.go:3: 105 columns wide: wrap it at 100"}},
		"WideCode":       {"a.go", "package a\n\nvar b = `" + strings.Repeat("word ", 30) + "`\n", nil},
		"WideLink":       {"a.go", "package a\n\n// https://" + strings.Repeat("x", 120) + "\n", nil},
		"WideDocument":   {"a.md", strings.Repeat("word ", 25) + "\n", []string{"a.md:1: 124 columns wide: wrap it at 120"}},
		"WideTable":      {"a.md", "| " + strings.Repeat("word ", 30) + "|\n", nil},
		"WideExample":    {"a.md", "```\n" + strings.Repeat("word ", 30) + "\n```\n" + strings.Repeat("word ", 30) + "\n", []string{"a.md:4: 149 columns wide: wrap it at 120"}},
		"NothingIsFound": {"a.go", "package a\n\n// f reports whether it rains.\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			content := []byte(trimEnds(tc.content))
			found := tooWide(tc.file, content)
			for _, text := range textsOf(tc.file, content) {
				found = append(found, find(phrases, text)...)
			}
			for _, f := range found {
				got = append(got, fmt.Sprintf("%s:%d: %s", f.file, f.line, f.message))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// trimEnds removes the spaces at the ends of lines.
func trimEnds(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestSkipped(t *testing.T) {
	for file, want := range map[string]bool{
		"pkg/a.go": false, "docs/a.md": false, "Makefile": false, "pkg/a/testdata/texts.golden": false,
		"pkg/a/testdata/in.yaml": true, "LICENSE": true, "hack/words/words.txt": true, "go.sum": true,
	} {
		if got := skipped(file); got != want {
			t.Errorf("skipped(%q) = %t", file, got)
		}
	}
}

func TestPhrasesAreValid(t *testing.T) {
	phrases, err := parse(words)
	if err != nil || len(phrases) < 20 {
		t.Fatalf("%d phrases, %v", len(phrases), err)
	}
	if _, err := parse("without advice\n"); err == nil {
		t.Error("a phrase without advice is accepted")
	}
}
