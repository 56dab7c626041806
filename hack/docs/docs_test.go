// Package docs checks that what the documents name exists: tests, files, headings, and targets of
// make.
package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

var (
	declared = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	named    = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	// places are tests, and links in parentheses to the directories that have them.
	places  = regexp.MustCompile("(`Test[A-Za-z0-9_]+`(?:,\\s+`Test[A-Za-z0-9_]+`)*)\\s+\\(((?:\\[[^\\]]*\\]\\([^)]*\\)(?:,\\s+)?)+)\\)")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence   = regexp.MustCompile("(?s)```.*?```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	mark    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	runs    = regexp.MustCompile("(?m)(?:^|`|[$] )make ([a-z][a-z0-9-]*)")
	target  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// tree is what documents may name, by paths from the root of the repository.
type tree struct {
	// tests are the names of tests by directory.
	tests map[string][]string
	// docs are the documents, files the other files and the directories.
	docs  map[string]string
	files map[string]bool
	// targets are those of the Makefile.
	targets []string
}

func readTree(t *testing.T) tree {
	t.Helper()
	out := tree{tests: map[string][]string{}, docs: map[string]string{}, files: map[string]bool{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file == "bin" || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && file != ".":
			return fs.SkipDir
		}
		out.files[file] = true
		isTest, isDoc := strings.HasSuffix(file, "_test.go"), strings.HasSuffix(file, ".md")
		if entry.IsDir() || !isTest && !isDoc {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		if isDoc {
			out.docs[file] = string(content)
			return nil
		}
		for _, match := range declared.FindAllStringSubmatch(string(content), -1) {
			out.tests[path.Dir(file)] = append(out.tests[path.Dir(file)], match[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range target.FindAllStringSubmatch(string(makefile), -1) {
		out.targets = append(out.targets, match[1])
	}
	return out
}

// problems returns what a document names that does not exist.
func (r tree) problems(doc string) []string {
	var out []string
	text := r.docs[doc]
	for _, match := range named.FindAllStringSubmatch(text, -1) {
		if !r.hasTest(match[1], slices.Collect(maps.Keys(r.tests))...) {
			out = append(out, fmt.Sprintf("%s: %s does not exist", doc, match[1]))
		}
	}
	for _, match := range places.FindAllStringSubmatch(text, -1) {
		var dirs []string
		for _, target := range link.FindAllStringSubmatch(match[2], -1) {
			dirs = append(dirs, path.Join(path.Dir(doc), target[1]))
		}
		for _, test := range named.FindAllStringSubmatch(match[1], -1) {
			if !r.hasTest(test[1], dirs...) {
				out = append(out, fmt.Sprintf("%s: %s is not in %s", doc, test[1], strings.Join(dirs, ", ")))
			}
		}
	}
	for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		if target := match[1]; !strings.Contains(target, "://") && !r.hasTarget(doc, target) {
			out = append(out, fmt.Sprintf("%s: %s does not exist", doc, target))
		}
	}
	for _, command := range code.FindAllString(text, -1) {
		for _, match := range runs.FindAllStringSubmatch(command, -1) {
			if !slices.Contains(r.targets, match[1]) {
				out = append(out, fmt.Sprintf("%s: make %s does not exist", doc, match[1]))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r tree) hasTest(test string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return slices.Contains(r.tests[dir], test) })
}

func (r tree) hasTarget(doc, target string) bool {
	file, anchor, hasAnchor := strings.Cut(target, "#")
	if file == "" {
		file = doc
	} else {
		file = path.Join(path.Dir(doc), file)
	}
	if !hasAnchor {
		return r.files[file]
	}
	return slices.Contains(anchors(r.docs[file]), anchor)
}

// anchors returns the names of the headings in links.
func anchors(text string) []string {
	var out []string
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		out = append(out, strings.ReplaceAll(mark.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	return out
}

// TestDocs: all tests, files, headings and targets of make exist that the documents of this
// repository name.
func TestDocs(t *testing.T) {
	r := readTree(t)
	if len(r.docs) < 20 || len(r.tests) < 20 {
		t.Fatalf("there are %d documents, and %d directories with tests", len(r.docs), len(r.tests))
	}
	for doc := range r.docs {
		for _, problem := range r.problems(doc) {
			t.Error(problem)
		}
	}
}

func TestProblems(t *testing.T) {
	r := tree{
		tests:   map[string][]string{"pkg/a": {"TestA", "TestB"}, "pkg/b": {"TestC"}},
		files:   map[string]bool{"pkg/a": true, "pkg/b": true, "docs/b.md": true},
		targets: []string{"build"},
	}
	const other = "# Other: what's new\n\n## A `flag` and more\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"AllExist":      {"`TestA`, `TestB` ([a](../pkg/a)), `TestC` in [b](b.md), [c](https://example.com/x), [d](b.md#other-whats-new)\n", nil},
		"OwnHeading":    {"# One two\n\n[x](#one-two)\n", nil},
		"Code":          {"[x](b.md#a-flag-and-more)\n```\n[y](z)\n# not a heading\n```\n", nil},
		"NoTest":        {"`TestD`\n", []string{"docs/a.md: TestD does not exist"}},
		"OtherPlace":    {"`TestA`,\n`TestC` ([a](../pkg/a))\n", []string{"docs/a.md: TestC is not in pkg/a"}},
		"OneOfTwo":      {"`TestC` ([a](../pkg/a), [b](../pkg/b))\n", nil},
		"NoFile":        {"[x](c.md)\n", []string{"docs/a.md: c.md does not exist"}},
		"NoHeading":     {"[x](b.md#another)\n", []string{"docs/a.md: b.md#another does not exist"}},
		"Target":        {"`make build`, make sure\n```\n$ make build\nmake\n```\n", nil},
		"NoTarget":      {"`make it`\n```\n$ make that X=1\n```\n", []string{"docs/a.md: make it does not exist", "docs/a.md: make that does not exist"}},
		"HeadingInCode": {"```\n# x\n```\n[x](#x)\n", []string{"docs/a.md: #x does not exist"}},
	} {
		t.Run(name, func(t *testing.T) {
			r.docs = map[string]string{"docs/a.md": c.text, "docs/b.md": other}
			if diff := cmp.Diff(c.want, r.problems("docs/a.md")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
