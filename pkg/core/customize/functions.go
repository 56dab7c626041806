package customize

import (
	"fmt"
	"strings"
	"text/template"
)

// maxText limits the input and the output of a function, in bytes. The output of a template is
// limited as well, but text that a template never writes could double with every call.
const maxText = 64 << 10

var errTooMuch = fmt.Errorf("makes more than %d bytes of text", maxText)

// functions are the functions of text/template that produce text, with limits.
var functions = template.FuncMap{
	"print":    bounded(fmt.Sprint),
	"println":  bounded(fmt.Sprintln),
	"html":     bounded(template.HTMLEscaper),
	"js":       bounded(template.JSEscaper),
	"urlquery": bounded(template.URLQueryEscaper),
	"printf":   printf,
}

// bounded returns the function with limits. Its output is at most a few times as large as its
// input.
func bounded(textOf func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if all, _ := sizes(args); all > maxText {
			return "", errTooMuch
		}
		return within(textOf(args...))
	}
}

// printf is fmt.Sprintf with limits. Sprintf pads, quotes, and can use an argument several times,
// so its output can be far larger than its input.
func printf(format string, args ...any) (string, error) {
	const (
		longest = len(`\U0010ffff`) // an upper bound of the bytes that one byte becomes
		most    = 16 * maxText
	)
	text, largest := sizes(args)
	verbs, width, again := measure(format, args)
	if again {
		text = verbs * largest
	}
	if len(format) > maxText || text > maxText || width+longest*text > most {
		return "", errTooMuch
	}
	return within(fmt.Sprintf(format, args...))
}

func within(text string) (string, error) {
	if len(text) > maxText {
		return "", errTooMuch
	}
	return text, nil
}

// sizes returns the approximate size in bytes of all arguments together, and of the largest one.
func sizes(args []any) (all, largest int) {
	for _, arg := range args {
		size := 32 // of a number
		switch arg := arg.(type) {
		case string:
			size += len(arg)
		case map[string]string:
			for key, value := range arg {
				size += len(key) + len(value) + 8
			}
		}
		all += size
		largest = max(largest, size)
	}
	return all, largest
}

// measure returns upper bounds for a format: the number of its verbs, and the total width that they
// pad to. It also returns whether the format uses positions of arguments, which allow it to use an
// argument several times.
func measure(format string, args []any) (verbs, width int, again bool) {
	const widest = 1_000_000 // fmt refuses more
	argument := 0            // the largest width in an argument
	for _, arg := range args {
		if n, ok := arg.(int); ok {
			argument = max(argument, min(max(n, -n), widest))
		}
	}
	rest := format
	for {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return verbs, width, again
		}
		verbs++
		number := 0
		rest = strings.TrimLeftFunc(after, func(r rune) bool {
			if '0' <= r && r <= '9' {
				number = min(10*number+int(r-'0'), widest)
				return true
			}
			width, number = width+number, 0
			switch r {
			case '*':
				width += argument
			case '[':
				again = true
			}
			return strings.ContainsRune("+-# .*[]", r)
		})
		width += number // a number at the end of the format
	}
}
