package jsonpath

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds how deep filters and parentheses may be nested.
const maxDepth = 16

// SyntaxError tells where a text is no path that this package reads.
type SyntaxError struct {
	// Position is where, in characters; the first is 1.
	Position int
	// Problem is what is wrong there.
	Problem string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("at character %d: %s", e.Position, e.Problem)
}

// Parse reads a path. Its errors are SyntaxErrors.
func Parse(text string) (Path, error) {
	p := parser{text: text}
	path, err := p.whole()
	if err != nil {
		return Path{}, err
	}
	return path, nil
}

type parser struct {
	text  string
	at    int // offset of what is read next
	depth int
}

func (p *parser) whole() (Path, error) {
	if i := invalidUTF8(p.text); i >= 0 {
		p.at = i
		return Path{}, p.problem("this is no UTF-8")
	}
	if !p.take("$") {
		return Path{}, p.expected("$")
	}
	path, err := p.segments()
	if err != nil {
		return Path{}, err
	}
	if p.at < len(p.text) {
		return Path{}, p.expected("., [ or the end", needsQuotes)
	}
	return path, nil
}

// segments reads as many segments as there are.
func (p *parser) segments() (Path, error) {
	var path Path
	for {
		before := p.at
		p.blank()
		var next segment
		var err error
		switch {
		case p.take("."):
			next, err = p.afterDot()
		case p.take("["):
			next, err = p.afterBracket()
		default:
			p.at = before
			return path, nil
		}
		if err != nil {
			return Path{}, err
		}
		path.segments = append(path.segments, next)
	}
}

func (p *parser) afterDot() (segment, error) {
	switch {
	case p.take("*"):
		return segment{{kind: wildcard}}, nil
	case p.peek() == '.':
		return nil, p.problem(".. (descendants) is not supported")
	}
	name := p.shorthand()
	if name == "" {
		return nil, p.expected("a name or *", needsQuotes)
	}
	return segment{{kind: byName, name: name}}, nil
}

// shorthand reads a name as it may stand behind a dot, "" if there is none.
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

func (p *parser) afterBracket() (segment, error) {
	var all segment
	for {
		p.blank()
		next, err := p.selector()
		if err != nil {
			return nil, err
		}
		all = append(all, next)
		p.blank()
		switch {
		case p.take("]"):
			return all, nil
		case p.take(","):
		case p.peek() == ':':
			return nil, p.problem("slices are not supported")
		case next.kind == byFilter:
			return nil, p.expected("&& or , or ]")
		default:
			return nil, p.expected(", or ]")
		}
	}
}

func (p *parser) selector() (selector, error) {
	switch r := p.peek(); {
	case r == '"', r == '\'':
		name, err := p.str()
		return selector{kind: byName, name: name}, err
	case p.take("*"):
		return selector{kind: wildcard}, nil
	case r == '-', isDigit(r):
		index, err := p.index()
		return selector{kind: byIndex, index: index}, err
	case p.take("?"):
		if err := p.deeper(); err != nil {
			return selector{}, err
		}
		filter, err := p.conjunction()
		p.depth--
		return selector{kind: byFilter, filter: filter}, err
	case r == ':':
		return selector{}, p.problem("slices are not supported")
	}
	return selector{}, p.expected(`"name" or 'name' or * or an index or ?`)
}

// conjunction reads tests joined by &&.
func (p *parser) conjunction() ([]test, error) {
	var all []test
	for {
		p.blank()
		some, err := p.term()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		before := p.at
		p.blank()
		switch {
		case p.take("&&"):
		case p.starts("||"):
			return nil, p.problem("|| is not supported, only &&; give each alternative a path of its own")
		default:
			p.at = before
			return all, nil
		}
	}
}

// term reads one test, or a conjunction in parentheses.
func (p *parser) term() ([]test, error) {
	switch {
	case p.peek() == '!':
		return nil, p.problem("! is not supported")
	case p.take("("):
		if err := p.deeper(); err != nil {
			return nil, err
		}
		inner, err := p.conjunction()
		if err != nil {
			return nil, err
		}
		p.blank()
		if !p.take(")") {
			return nil, p.expected("&& or )")
		}
		p.depth--
		return inner, nil
	}
	one, err := p.test()
	return []test{one}, err
}

// operand is one side of a comparison.
type operand struct {
	start   int
	isPath  bool
	path    Path
	literal any
}

// test reads a path that must exist, or a comparison of a path with a literal.
func (p *parser) test() (test, error) {
	left, err := p.operand()
	if err != nil {
		return test{}, err
	}
	before := p.at
	p.blank()
	var op operator
	switch {
	case p.take("=="):
		op = equal
	case p.take("!="):
		op = notEqual
	case strings.ContainsRune("=<>!~", p.peek()):
		return test{}, p.expected("== or !=", "other comparisons are not supported")
	case !left.isPath:
		return test{}, p.expected("== or !=")
	default:
		p.at = before
		return test{path: left.path, operator: exists}, nil
	}
	p.blank()
	right, err := p.operand()
	if err != nil {
		return test{}, err
	}
	if left.isPath == right.isPath {
		p.at = right.start
		if left.isPath {
			return test{}, p.expected("a literal", "a path is compared with a literal only")
		}
		return test{}, p.expected("a path", "a literal is compared with a path only")
	}
	if right.isPath {
		left, right = right, left
	}
	if !left.path.singular() {
		p.at = left.start
		return test{}, p.problem("only a path of single names and indices can be compared")
	}
	return test{path: left.path, operator: op, literal: right.literal}, nil
}

func (p *parser) operand() (operand, error) {
	o := operand{start: p.at}
	var err error
	switch r := p.peek(); {
	case p.take("@"):
		o.isPath = true
		o.path, err = p.segments()
		return o, err
	case r == '"', r == '\'':
		o.literal, err = p.str()
		return o, err
	case r == '-', isDigit(r):
		o.literal, err = p.number()
		return o, err
	case r == '$':
		return o, p.problem("$ is not supported in a filter, only @")
	}
	switch p.shorthand() {
	case "true":
		o.literal = true
	case "false":
		o.literal = false
	case "null":
	default:
		p.at = o.start
		return o, p.expected("@ or a literal (string, number, true, false, null)")
	}
	return o, nil
}

func (p *parser) deeper() error {
	p.depth++
	if p.depth > maxDepth {
		return p.problem("this is nested too deep")
	}
	return nil
}

func (p *parser) blank() {
	for p.at < len(p.text) && slices.Contains([]byte(" \t\n\r"), p.text[p.at]) {
		p.at++
	}
}

func (p *parser) starts(prefix string) bool { return strings.HasPrefix(p.text[p.at:], prefix) }

func (p *parser) take(prefix string) bool {
	if !p.starts(prefix) {
		return false
	}
	p.at += len(prefix)
	return true
}

// end is what peek returns at the end of the text; no valid text holds it.
const end = -1

func (p *parser) peek() rune {
	if p.at == len(p.text) {
		return end
	}
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

func (p *parser) problem(what string) error {
	return &SyntaxError{Position: utf8.RuneCountInString(p.text[:p.at]) + 1, Problem: what}
}

// needsQuotes is a hint for those who know a more liberal JSONPath.
const needsQuotes = `a name with other characters than letters, digits and _ is written ["name"] without a dot`

// expected says what was expected, and after it the hints.
func (p *parser) expected(what string, hints ...string) error {
	found := "the end"
	if r := p.peek(); r != end {
		found = strconv.QuoteRune(r)
	}
	return p.problem(strings.Join(append([]string{"expected " + what + ", found " + found}, hints...), "; "))
}

// invalidUTF8 returns the offset of the first byte that is no UTF-8, -1 if there is none.
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
