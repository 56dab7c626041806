package jsonpath

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of filters and parentheses.
const maxDepth = 16

// SyntaxError is the error for a path that is invalid or not supported.
type SyntaxError struct {
	// Position of the error, in characters; the first is 1.
	Position int
	// Problem describes the error.
	Problem string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at character %d: %s", e.Position, e.Problem)
}

// Parse parses a path. Its errors are SyntaxErrors.
func Parse(text string) (path Path, err error) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case *SyntaxError:
			err = failure
		default:
			panic(failure)
		}
	}()
	p := parser{text: text}
	return p.whole(), nil
}

// parser parses a text. Its methods panic with a SyntaxError.
type parser struct {
	text  string
	at    int // offset of the next character
	depth int
}

func (p *parser) whole() Path {
	if i := invalidUTF8(p.text); i >= 0 {
		p.at = i
		panic(p.problem("invalid UTF-8"))
	}
	if !p.accept("$") {
		panic(p.expected("$"))
	}
	path := p.segments()
	if p.at < len(p.text) {
		panic(p.expected("., [ or the end", needsQuotes))
	}
	return path
}

// segments parses all following segments.
func (p *parser) segments() (path Path) {
	for {
		before := p.at
		p.blank()
		switch {
		case p.accept("."):
			path.segments = append(path.segments, p.afterDot())
		case p.accept("["):
			path.segments = append(path.segments, p.afterBracket())
		default:
			p.at = before
			return path
		}
	}
}

func (p *parser) afterDot() segment {
	switch {
	case p.accept("*"):
		return segment{{kind: wildcard}}
	case p.peek() == '.':
		panic(p.problem(".. (descendants) is not supported"))
	}
	name := p.shorthand()
	if name == "" {
		panic(p.expected("a name or *", needsQuotes))
	}
	return segment{{kind: byName, name: name}}
}

// shorthand parses an unquoted name; "" if there is none.
func (p *parser) shorthand() string {
	start := p.at
	for i, r := range p.text[start:] {
		if !inShorthand(r, i == 0) {
			break
		}
		p.at = start + i + utf8.RuneLen(r)
	}
	return p.text[start:p.at]
}

func (p *parser) afterBracket() (all segment) {
	for {
		p.blank()
		next := p.selector()
		all = append(all, next)
		p.blank()
		switch {
		case p.accept("]"):
			return all
		case p.accept(","):
		case p.peek() == ':':
			panic(p.problem("slices are not supported"))
		case next.kind == byFilter:
			panic(p.expected("&& or , or ]"))
		default:
			panic(p.expected(", or ]"))
		}
	}
}

func (p *parser) selector() selector {
	switch r := p.peek(); {
	case r == '"', r == '\'':
		return selector{kind: byName, name: p.str()}
	case p.accept("*"):
		return selector{kind: wildcard}
	case r == '-', isDigit(r):
		return selector{kind: byIndex, index: p.index()}
	case p.accept("?"):
		p.deeper()
		filter := p.conjunction()
		p.depth--
		return selector{kind: byFilter, filter: filter}
	case r == ':':
		panic(p.problem("slices are not supported"))
	}
	panic(p.expected(`"name" or 'name' or * or an index or ?`))
}

// conjunction parses tests joined by &&.
func (p *parser) conjunction() (all []test) {
	for {
		p.blank()
		all = append(all, p.term()...)
		before := p.at
		p.blank()
		switch {
		case p.accept("&&"):
		case p.starts("||"):
			panic(p.problem("|| is not supported, only &&; use one path for each alternative"))
		default:
			p.at = before
			return all
		}
	}
}

// term parses one test, or a conjunction in parentheses.
func (p *parser) term() []test {
	switch {
	case p.peek() == '!':
		panic(p.problem("! is not supported"))
	case p.accept("("):
		p.deeper()
		inner := p.conjunction()
		p.blank()
		if !p.accept(")") {
			panic(p.expected("&& or )"))
		}
		p.depth--
		return inner
	}
	return []test{p.test()}
}

// operand is one side of a comparison.
type operand struct {
	start   int
	isPath  bool
	path    Path
	literal any
}

// test parses a path that must exist, or a comparison of a path with a literal.
func (p *parser) test() test {
	left := p.operand()
	before := p.at
	p.blank()
	var op operator
	switch {
	case p.accept("=="):
		op = equal
	case p.accept("!="):
		op = notEqual
	case strings.ContainsRune("=<>!~", p.peek()):
		panic(p.expected("== or !=", "other comparisons are not supported"))
	case !left.isPath:
		panic(p.expected("== or !="))
	default:
		p.at = before
		return test{path: left.path, operator: exists}
	}
	p.blank()
	right := p.operand()
	if left.isPath == right.isPath {
		p.at = right.start
		if left.isPath {
			panic(p.expected("a literal", "a path can be compared only with a literal"))
		}
		panic(p.expected("a path", "a literal can be compared only with a path"))
	}
	if right.isPath {
		left, right = right, left
	}
	if !left.path.singular() {
		p.at = left.start
		panic(p.problem("only a path of names and indices can be compared"))
	}
	return test{path: left.path, operator: op, literal: right.literal}
}

func (p *parser) operand() operand {
	start := p.at
	switch r := p.peek(); {
	case p.accept("@"):
		return operand{start: start, isPath: true, path: p.segments()}
	case r == '"', r == '\'':
		return operand{start: start, literal: p.str()}
	case r == '-', isDigit(r):
		return operand{start: start, literal: p.number()}
	case r == '$':
		panic(p.problem("$ is not supported in a filter, only @"))
	}
	switch p.shorthand() {
	case "true":
		return operand{start: start, literal: true}
	case "false":
		return operand{start: start, literal: false}
	case "null":
		return operand{start: start}
	}
	p.at = start
	panic(p.expected("@ or a literal (string, number, true, false, null)"))
}

func (p *parser) deeper() {
	p.depth++
	if p.depth > maxDepth {
		panic(p.problem("nested too deeply"))
	}
}

func (p *parser) blank() {
	for p.at < len(p.text) && slices.Contains([]byte(" \t\n\r"), p.text[p.at]) {
		p.at++
	}
}

func (p *parser) starts(prefix string) bool { return strings.HasPrefix(p.text[p.at:], prefix) }

func (p *parser) accept(prefix string) bool {
	if !p.starts(prefix) {
		return false
	}
	p.at += len(prefix)
	return true
}

// end is the result of peek at the end of the text. No valid text contains it.
const end = -1

func (p *parser) peek() rune {
	if p.at == len(p.text) {
		return end
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

func (p *parser) problem(what string) *SyntaxError {
	return &SyntaxError{Position: utf8.RuneCountInString(p.text[:p.at]) + 1, Problem: what}
}

// needsQuotes is a hint for users of other dialects of JSONPath.
const needsQuotes = `a name with characters other than letters, digits and _ must be written as ["name"], without a dot`

// expected returns an error with what was expected, followed by the hints.
func (p *parser) expected(what string, hints ...string) *SyntaxError {
	found := "the end"
	if r := p.peek(); r != end {
		found = strconv.QuoteRune(r)
	}
	return p.problem(strings.Join(append([]string{"expected " + what + ", found " + found}, hints...), "; "))
}

// invalidUTF8 returns the offset of the first invalid byte; -1 if there is none.
func invalidUTF8(text string) int {
	for i, r := range text {
		if r != utf8.RuneError {
			continue
		}
		if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
			return i
		}
	}
	return -1
}
