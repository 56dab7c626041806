package space

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// tailLog returns the last lines of a log.
func tailLog(path string, lines int) string {
	const most = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, _ := io.ReadAll(io.LimitReader(file, most)) // what could be read is better than nothing
	all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// shownLines is how much of a log an error shows.
const shownLines = 8

// maxLines is how much of a log is looked at for what went wrong.
const maxLines = 200

// sinceLastPanic returns the lines from the last panic on, whose cause is above what is at the end,
// or the last lines where there is none.
func sinceLastPanic(text string, lines int) string {
	all := strings.Split(text, "\n")
	first := max(0, len(all)-lines)
	for i, line := range all {
		if strings.HasPrefix(line, "panic: ") {
			first = i
		}
	}
	return strings.Join(all[first:min(len(all), first+lines)], "\n")
}

// withLog adds to an error about a component what its log says, and what to do where that is known.
func (f *Fleet) withLog(err error, component string) error {
	path := f.layout.Log(component)
	tail := sinceLastPanic(tailLog(path, maxLines), shownLines)
	var b strings.Builder
	switch {
	case strings.Contains(tail, "no space left on device"):
		fmt.Fprintf(&b, "\nThe disk is full: make room in %s and run `starling up` again.", f.layout.Dir)
	case strings.Contains(tail, "address already in use"):
		b.WriteString("\nAnother program has taken its port: end that program and run `starling up` again.")
	}
	fmt.Fprintf(&b, "\nSee %s", path)
	if tail != "" {
		b.WriteString(", which ends with:")
		for line := range strings.Lines(tail) {
			const most = 400
			line = strings.TrimRight(line, "\n")
			fmt.Fprintf(&b, "\n  %s", line[:min(len(line), most)])
		}
	}
	return fmt.Errorf("%w%s", err, b.String())
}
