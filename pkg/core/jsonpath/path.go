package jsonpath

import (
	"slices"
	"strconv"
	"strings"
)

// Path selects parts of a value. It is immutable. The zero Path selects the whole value. Parse
// returns a Path.
type Path struct {
	segments []segment
}

// segment selects children of a value: those that any of its selectors selects.
type segment []selector

type kind int8

const (
	byName kind = iota
	byIndex
	wildcard
	byFilter
)

// selector selects children of a value.
type selector struct {
	kind   kind
	name   string
	index  int
	filter []test // all of them must hold
}

type operator int8

const (
	exists operator = iota
	equal
	notEqual
)

// test is a test of one child, at which its path begins.
type test struct {
	path     Path
	operator operator
	literal  any // string, bool, int64, float64 or nil
}

// Root reports whether the path selects the whole value.
func (p Path) Root() bool { return len(p.segments) == 0 }

// MaySelect reports whether the path may select the member at these names in some value. It assumes
// that every filter may hold.
func (p Path) MaySelect(names ...string) bool {
	if len(p.segments) != len(names) {
		return false
	}
	for i, segment := range p.segments {
		if !slices.ContainsFunc(segment, func(s selector) bool {
			return s.kind == wildcard || s.kind == byFilter || s.kind == byName && s.name == names[i]
		}) {
			return false
		}
	}
	return true
}

// singular reports whether the path selects at most one value.
func (p Path) singular() bool {
	return !slices.ContainsFunc(p.segments, func(s segment) bool {
		return len(s) != 1 || s[0].kind != byName && s[0].kind != byIndex
	})
}

// String returns the path in a normal form, from which Parse returns the same path.
func (p Path) String() string {
	var b strings.Builder
	p.print(&b, '$')
	return b.String()
}

func (p Path) print(b *strings.Builder, root byte) {
	b.WriteByte(root)
	for _, segment := range p.segments {
		if len(segment) == 1 && segment[0].kind == byName && isShorthand(segment[0].name) {
			b.WriteByte('.')
			b.WriteString(segment[0].name)
			continue
		}
		b.WriteByte('[')
		for i := range segment {
			if i > 0 {
				b.WriteString(", ")
			}
			segment[i].print(b)
		}
		b.WriteByte(']')
	}
}

func (s *selector) print(b *strings.Builder) {
	switch s.kind {
	case byName:
		b.WriteString(quote(s.name))
	case byIndex:
		b.WriteString(strconv.Itoa(s.index))
	case wildcard:
		b.WriteByte('*')
	case byFilter:
		b.WriteByte('?')
		for i := range s.filter {
			if i > 0 {
				b.WriteString(" && ")
			}
			s.filter[i].print(b)
		}
	}
}

func (t *test) print(b *strings.Builder) {
	t.path.print(b, '@')
	switch t.operator {
	case exists:
		return
	case equal:
		b.WriteString(" == ")
	case notEqual:
		b.WriteString(" != ")
	}
	b.WriteString(printLiteral(t.literal))
}
