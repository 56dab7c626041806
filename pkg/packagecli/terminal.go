package packagecli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// visible is a writer for texts that others wrote.
type visible struct{ io.Writer }

// Write implements io.Writer.
func (v visible) Write(p []byte) (int, error) {
	_, err := io.WriteString(v.Writer, shown(string(p)))
	return len(p), err
}

// shown is a text in which everything that would steer a terminal, or turn the order of what follows, is shown instead: so nothing in a
// package can hide from who reviews it.
func shown(text string) string {
	steers := func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
	}
	if !strings.ContainsFunc(text, steers) {
		return text
	}
	const firstVisible, caret = ' ', '@'
	var out strings.Builder
	for _, r := range text {
		switch {
		case !steers(r):
			out.WriteRune(r)
		case r < firstVisible:
			out.WriteString("^" + string(r+caret))
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
