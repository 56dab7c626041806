package jsonpath

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxExact bounds the whole numbers that JSON carries without loss wherever it is read; indices are among them.
const maxExact = 1<<53 - 1

func isDigit(r rune) bool { return '0' <= r && r <= '9' }

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// inShorthand tells whether a name may have the character without being quoted.
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

// digits takes the digits that come next, and tells how many.
func (p *parser) digits() int {
	start := p.at
	for isDigit(p.peek()) {
		p.at++
	}
	return p.at - start
}

// whole takes a whole number without leading zeros.
func (p *parser) wholeNumber() error {
	p.take("-")
	start := p.at
	switch n := p.digits(); {
	case n == 0:
		return p.expected("a digit")
	case n > 1 && p.text[start] == '0':
		p.at = start
		return p.problem("a number has no leading zeros")
	}
	return nil
}

func (p *parser) index() (int, error) {
	start := p.at
	if err := p.wholeNumber(); err != nil {
		return 0, err
	}
	text := p.text[start:p.at]
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > maxExact || n < -maxExact || text == "-0" {
		p.at = start
		return 0, p.problem(text + " is no index")
	}
	return int(n), nil
}

func (p *parser) number() (any, error) {
	start := p.at
	if err := p.wholeNumber(); err != nil {
		return nil, err
	}
	if p.take(".") && p.digits() == 0 {
		return nil, p.expected("a digit")
	}
	if p.take("e") || p.take("E") {
		if !p.take("+") {
			p.take("-")
		}
		if p.digits() == 0 {
			return nil, p.expected("a digit")
		}
	}
	text := p.text[start:p.at]
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.at = start
		return nil, p.problem(text + " is out of range")
	}
	if f == math.Trunc(f) && math.Abs(f) <= maxExact {
		return int64(f), nil
	}
	return f, nil
}

// str reads a string with its quotes: those and the escapes of RFC 9535, and the other escapes of JavaScript.
func (p *parser) str() (string, error) {
	start := p.at
	mark := p.peek()
	p.at++
	var b strings.Builder
	for {
		r := p.peek()
		switch {
		case r == end:
			p.at = start
			return "", p.problem("this string does not end")
		case r < ' ':
			return "", p.problem("a control character in a string is written as \\u and four hexadecimal digits")
		}
		p.at += utf8.RuneLen(r)
		switch r {
		case mark:
			return b.String(), nil
		case '\\':
			if err := p.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteRune(r)
		}
	}
}

// escape reads what follows a backslash.
func (p *parser) escape(b *strings.Builder) error {
	r := p.peek()
	if r == end {
		return p.expected("an escape")
	}
	p.at += utf8.RuneLen(r)
	switch r {
	case 'b':
		b.WriteByte('\b')
	case 'f':
		b.WriteByte('\f')
	case 'n':
		b.WriteByte('\n')
	case 'r':
		b.WriteByte('\r')
	case 't':
		b.WriteByte('\t')
	case 'v':
		b.WriteByte('\v')
	case '\n', '\u2028', '\u2029': // a line that goes on
	case '\r':
		p.take("\n")
	case 'x':
		c, err := p.hex(2)
		if err != nil {
			return err
		}
		b.WriteRune(c)
	case 'u':
		return p.unicode(b)
	default:
		if isDigit(r) {
			if r != '0' || isDigit(p.peek()) {
				p.at--
				return p.problem("octal escapes are not supported")
			}
			r = 0
		}
		b.WriteRune(r)
	}
	return nil
}

// unicode reads what follows \u: four digits, twice that for a surrogate pair, or any number of them in braces.
func (p *parser) unicode(b *strings.Builder) error {
	start := p.at
	r := rune(0)
	var err error
	if p.take("{") {
		n := strings.IndexByte(p.text[p.at:], '}')
		if n < 1 || n > len("10FFFF") {
			return p.expected("1 to 6 hexadecimal digits and }")
		}
		if r, err = p.hex(n); err != nil {
			return err
		}
		p.at++
	} else {
		if r, err = p.hex(4); err != nil {
			return err
		}
		if utf16.IsSurrogate(r) && p.take(`\u`) {
			second, err := p.hex(4)
			if err != nil {
				return err
			}
			r = utf16.DecodeRune(r, second) // which is RuneError if they are no pair
			if r == utf8.RuneError {
				r = -1
			}
		}
	}
	if !utf8.ValidRune(r) {
		p.at = start
		return p.problem("this is no character of Unicode")
	}
	b.WriteRune(r)
	return nil
}

// hex reads n hexadecimal digits.
func (p *parser) hex(n int) (rune, error) {
	value := rune(0)
	for range n {
		r := p.peek()
		digit := strings.IndexRune("0123456789abcdef", r|0x20)
		if digit < 0 || !isDigit(r) && !isLetter(r) {
			return 0, p.expected("a hexadecimal digit")
		}
		value = value<<4 | rune(digit)
		p.at++
	}
	return value, nil
}

// quote returns the string in double quotes, as str reads it.
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
