package plugin

import (
	"bytes"
	"io"
	"os"
	"regexp"

	"golang.org/x/term"
)

// Output returns a writer for texts that may contain control characters, which are escaped. If it
// writes to a terminal, it colors the signs at the beginnings of lines, unless $NO_COLOR is set
// (https://no-color.org) or the terminal is dumb.
func Output(out io.Writer) io.Writer {
	if file, is := out.(*os.File); is && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		out = &coloringWriter{out: out, begins: true}
	}
	return EscapingWriter{Writer: out}
}

// coloringWriter colors signs. A sign, and what is before it in its line, must be in one Write.
type coloringWriter struct {
	out io.Writer
	// begins: a line begins with what is written next.
	begins bool
}

// sign is a mark of a link or of a part of a tree, or the sign of a verb of a plan.
var sign = regexp.MustCompile(`^([ │├└─]*)(\[[x!>?]\]|(?:[-+~=o!] ))`)

const (
	red, green, yellow, magenta = "31", "32", "33", "35"
	noColor                     = "\x1b[0m"
)

var colors = map[string]string{ //nolint:gochecknoglobals // a constant
	"[x]": green, "[!]": red, "[>]": yellow, "[?]": magenta,
	"+ ": green, "- ": red, "~ ": yellow, "= ": magenta, "o ": magenta, "! ": red,
}

// Write implements io.Writer.
func (w *coloringWriter) Write(p []byte) (int, error) {
	var colored bytes.Buffer
	for _, line := range bytes.SplitAfter(p, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if at := sign.FindSubmatchIndex(line); at != nil && w.begins {
			const before, after = 4, 5 // of the second group
			colored.Write(line[:at[before]])
			colored.WriteString("\x1b[" + colors[string(line[at[before]:at[after]])] + "m")
			colored.Write(line[at[before]:at[after]])
			colored.WriteString(noColor)
			line = line[at[after]:]
		}
		colored.Write(line)
		w.begins = bytes.HasSuffix(line, []byte("\n"))
	}
	_, err := w.out.Write(colored.Bytes())
	return len(p), err
}
