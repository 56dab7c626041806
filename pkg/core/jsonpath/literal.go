package jsonpath

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxExact bounds the integers that all JSON parsers read exactly. It bounds indices.
const maxExact = 1<<53 - 1

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// inShorthand reports whether an unquoted name may have the character.
func inShorthand(r rune, first bool) bool {
	return r == '_' || isLetter(r) || r >= utf8.RuneSelf || !first && isDigit(r)
}

func isShorthand(name string) bool {
	for i, r := range name {
		if !inShorthand(r, i == 0) {
			return false
		}
	}
	return name != ""
}

// digits parses digits, and returns their number.
func (p *parser) digits() int {
	start := p.at
	for isDigit(p.peek()) {
		p.at++
	}
	return p.at - start
}

// wholeNumber parses an integer without leading zeros.
func (p *parser) wholeNumber() {
	p.accept("-")
	start := p.at
	switch n := p.digits(); {
	case n == 0:
		panic(p.expected("a digit"))
	case n > 1 && p.text[start] == '0':
		p.at = start
		panic(p.problem("a number must not have leading zeros"))
	}
}

func (p *parser) index() int {
	start := p.at
	p.wholeNumber()
	text := p.text[start:p.at]
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > maxExact || n < -maxExact || text == "-0" {
		p.at = start
		panic(p.problem(text + " is not a valid index"))
	}
	return int(n)
}

func (p *parser) number() any {
	start := p.at
	p.wholeNumber()
	if p.accept(".") && p.digits() == 0 {
		panic(p.expected("a digit"))
	}
	if p.accept("e") || p.accept("E") {
		if !p.accept("+") {
			p.accept("-")
		}
		if p.digits() == 0 {
			panic(p.expected("a digit"))
		}
	}
	text := p.text[start:p.at]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.at = start
		panic(p.problem(text + " is out of range"))
	}
	if f == math.Trunc(f) && math.Abs(f) <= maxExact {
		return int64(f)
	}
	return f
}

// str parses a quoted string, with the escapes of RFC 9535 and of JavaScript.
func (p *parser) str() string {
	start := p.at
	quote := p.peek()
	p.at++
	var b strings.Builder
	for {
		r := p.peek()
		switch {
		case r == end:
			p.at = start
			panic(p.problem("the string is not terminated"))
		case r < ' ':
			panic(p.problem("a control character in a string must be written as \\u and four hexadecimal digits"))
		}
		p.at += utf8.RuneLen(r)
		switch r {
		case quote:
			return b.String()
		case '\\':
			p.escape(&b)
		default:
			b.WriteRune(r)
		}
	}
}

// escape parses the rest of an escape after the backslash.
func (p *parser) escape(b *strings.Builder) {
	r := p.peek()
	if r == end {
		panic(p.expected("an escape"))
	}
	p.at += utf8.RuneLen(r)
	if i := strings.IndexRune("bfnrtv", r); i >= 0 {
		b.WriteByte("\b\f\n\r\t\v"[i])
		return
	}
	switch r {
	case '\n', '\u2028', '\u2029': // a continued line
	case '\r':
		p.accept("\n")
	case 'x':
		b.WriteRune(p.hex(2))
	case 'u':
		b.WriteRune(p.unicode())
	default:
		if isDigit(r) {
			if r != '0' || isDigit(p.peek()) {
				p.at--
				panic(p.problem("octal escapes are not supported"))
			}
			r = 0
		}
		b.WriteRune(r)
	}
}

// unicode parses the rest of an escape after \u: four digits, a surrogate pair, or one to six
// digits in braces.
func (p *parser) unicode() (r rune) {
	start := p.at
	if p.accept("{") {
		n := strings.IndexByte(p.text[p.at:], '}')
		if n < 1 || n > len("10FFFF") {
			panic(p.expected("1 to 6 hexadecimal digits and }"))
		}
		r = p.hex(n)
		p.at++
	} else {
		r = p.hex(4)
		if utf16.IsSurrogate(r) && p.accept(`\u`) {
			r = utf16.DecodeRune(r, p.hex(4)) // RuneError if they are not a pair
			if r == utf8.RuneError {
				r = -1
			}
		}
	}
	if !utf8.ValidRune(r) {
		p.at = start
		panic(p.problem("not a Unicode character"))
	}
	return r
}

// hex parses n hexadecimal digits.
func (p *parser) hex(n int) (value rune) {
	for range n {
		r := p.peek()
		digit := strings.IndexRune("0123456789abcdef", r|0x20)
		if digit < 0 || !isDigit(r) && !isLetter(r) {
			panic(p.expected("a hexadecimal digit"))
		}
		value = value<<4 | rune(digit)
		p.at++
	}
	return value
}

// quote returns the string in double quotes, for str.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func printLiteral(value any) string {
	switch v := value.(type) {
	case string:
		return quote(v)
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return "null"
}
