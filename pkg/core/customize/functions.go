package customize

import (
	"fmt"
	"strings"
	"text/template"
)

// maxText bounds what a function takes and what it makes. The output of a template is bounded as well, but what is never written
// could double with every call.
const maxText = 64 << 10

var errTooMuch = fmt.Errorf("makes more than %d bytes of text", maxText)

// functions are those of text/template that make text, bounded.
var functions = template.FuncMap{
	"print":    bounded(fmt.Sprint),
	"println":  bounded(fmt.Sprintln),
	"html":     bounded(template.HTMLEscaper),
	"js":       bounded(template.JSEscaper),
	"urlquery": bounded(template.URLQueryEscaper),
	"printf":   printf,
}

// bounded returns a function that makes a few times what it is given at most.
func bounded(text func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if all, _ := sizes(args); all > maxText {
			return "", errTooMuch
		}
		return within(text(args...))
	}
}

// printf is fmt.Sprintf, unless that could make far more than it may: it pads, quotes, and takes arguments more than once.
func printf(format string, args ...any) (string, error) {
	const (
		longest = len(`\U0010ffff`) // what a byte may become, a little less than
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

// sizes returns about how much text all arguments are, and the largest of them.
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

// measure returns how many verbs a format has at most, how wide their results are made, and whether they name arguments by
// their position, so that one may be taken again.
func measure(format string, args []any) (verbs, width int, again bool) {
	const widest = 1_000_000 // more is an error to fmt
	argument := 0            // the widest that an argument asks for
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
		width += number // the format ends in it
	}
}
