package plugin

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// EscapingWriter escapes texts that may contain control characters.
type EscapingWriter struct{ io.Writer }

func (v EscapingWriter) Write(p []byte) (int, error) {
	_, err := io.WriteString(v.Writer, Escape(string(p)))
	return len(p), err
}

// Escape makes control characters and changes of the text direction visible, so that nothing in a
// package can hide from reviewers.
func Escape(text string) string {
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
