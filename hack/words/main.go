// Command words checks the language of comments, strings and docs: that they contain no phrase of
// words.txt, and that comments are no wider than 100 columns and docs no wider than 120. It prints
// one line for each finding and exits with 1 if there are any. Run it in the root of the
// repository.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	commentWidth = 100
	docWidth     = 120
	tabWidth     = 4
)

//go:embed words.txt
var words string

// phrase is one line of words.txt.
type phrase struct {
	pattern *regexp.Regexp
	advice  string
}

// text is a comment, a string or a document.
type text struct {
	file string
	line int // of its first line
	body string
}

// finding is a defect, with what to do about it.
type finding struct {
	file    string
	line    int
	message string
}

func main() {
	found, err := check(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "words:", err)
		os.Exit(2)
	}
	for _, f := range found {
		fmt.Printf("%s:%d: %s\n", f.file, f.line, f.message)
	}
	if len(found) > 0 {
		fmt.Fprintf(os.Stderr, "words: %d findings\n", len(found))
		os.Exit(1)
	}
}

// check reads all files that git knows.
func check(ctx context.Context) ([]finding, error) {
	phrases, err := parse(words)
	if err != nil {
		return nil, err
	}
	listed, err := exec.CommandContext(ctx, "git", "ls-files", "-z").Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	var found []finding
	for file := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		if skipped(file) {
			continue
		}
		info, err := os.Lstat(file)
		if os.IsNotExist(err) {
			continue // removed, and not committed yet
		}
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			continue // a link: what it leads to has its own name
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if generated(content) {
			continue
		}
		for _, t := range textsOf(file, content) {
			found = append(found, find(phrases, t)...)
		}
		found = append(found, tooWide(file, content)...)
	}
	slices.SortStableFunc(found, func(a, b finding) int {
		if a.file != b.file {
			return strings.Compare(a.file, b.file)
		}
		return a.line - b.line
	})
	return found, nil
}

// parse reads the phrases.
func parse(list string) ([]phrase, error) {
	var phrases []phrase
	for line := range strings.Lines(list) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		expression, advice, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("words.txt: %q has no advice", line)
		}
		// Words may be separated by a line break, with the marks of a comment.
		expression = strings.ReplaceAll(expression, " ", `(?:\s|//|#)+`)
		pattern, err := regexp.Compile(`(?i)\b(?:` + expression + `)\b`)
		if err != nil {
			return nil, fmt.Errorf("words.txt: %q: %w", line, err)
		}
		phrases = append(phrases, phrase{pattern, advice})
	}
	return phrases, nil
}

// skipped reports whether a file is not ours to word: the list itself, licenses, and data of tests.
func skipped(file string) bool {
	switch filepath.Ext(file) {
	case ".go", ".md", ".sh", ".yaml", ".yml", ".golden", "":
	default:
		return true
	}
	base := filepath.Base(file)
	return strings.HasPrefix(file, "hack/words/") || base == "LICENSE" || strings.Contains(file, "/testdata/") && filepath.Ext(file) != ".golden"
}

func generated(content []byte) bool {
	head := content[:min(len(content), 512)]
	return bytes.Contains(head, []byte("DO NOT EDIT"))
}

// textsOf returns the comments and strings of Go code, and other files as a whole.
func textsOf(file string, content []byte) []text {
	if filepath.Ext(file) != ".go" {
		return []text{{file, 1, string(content)}}
	}
	var (
		texts   []text
		s       scanner.Scanner
		set     = token.NewFileSet()
		source  = set.AddFile(file, -1, len(content))
		comment = -2 // the line after which a comment continues
	)
	s.Init(source, content, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		line := set.Position(pos).Line
		switch kind {
		case token.EOF:
			return texts
		case token.COMMENT:
			if comment == line-1 { // lines of one comment are one text
				last := &texts[len(texts)-1]
				last.body += "\n" + literal
			} else {
				texts = append(texts, text{file, line, literal})
			}
			comment = line
		case token.STRING:
			texts = append(texts, text{file, line, literal})
			comment = -2
		default:
		}
	}
}

func find(phrases []phrase, t text) []finding {
	var found []finding
	for _, p := range phrases {
		for _, at := range p.pattern.FindAllStringIndex(t.body, -1) {
			said := strings.Join(strings.Fields(t.body[at[0]:at[1]]), " ")
			found = append(found, finding{t.file, t.line + strings.Count(t.body[:at[0]], "\n"), fmt.Sprintf("%q: say: %s", said, p.advice)})
		}
	}
	return found
}

// tooWide finds lines of comments and docs that are too wide. Tables, examples and lines that are
// one word, such as links, cannot be wrapped.
func tooWide(file string, content []byte) []finding {
	var found []finding
	fenced := false
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		limit := 0
		switch filepath.Ext(file) {
		case ".go":
			if strings.HasPrefix(trimmed, "// ") && strings.Contains(strings.TrimPrefix(trimmed, "// "), " ") &&
				!strings.HasPrefix(trimmed, "//\t") && !strings.HasPrefix(trimmed, "// +") {
				limit = commentWidth
			}
		case ".md":
			if strings.HasPrefix(trimmed, "```") {
				fenced = !fenced
			}
			if !fenced && !strings.HasPrefix(trimmed, "|") && strings.Contains(trimmed, " ") && !strings.HasPrefix(trimmed, "#") {
				limit = docWidth
			}
		}
		if width := columns(line); limit > 0 && width > limit {
			found = append(found, finding{file, number, fmt.Sprintf("%d columns wide: wrap it at %d", width, limit)})
		}
	}
	return found
}

func columns(line string) int {
	return utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabWidth-1)
}
