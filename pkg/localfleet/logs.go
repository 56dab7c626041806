package localfleet

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/starlinghq/starling/pkg/core/text"
)

// tailLog returns the end of a log.
func tailLog(path string) string {
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
	data, _ := io.ReadAll(io.LimitReader(file, most)) // a part is better than nothing
	return strings.TrimRight(string(data), "\n")
}

// shownLines is the number of lines of a log that an error includes.
const shownLines = 8

// relevant returns the lines of a log from the last panic on, because its cause is in its first
// lines, or its last lines if there is none.
func relevant(log string) string {
	all := strings.Split(log, "\n")
	first := max(0, len(all)-shownLines)
	for i, line := range all {
		if strings.HasPrefix(line, "panic: ") {
			first = i
		}
	}
	return strings.Join(all[first:min(len(all), first+shownLines)], "\n")
}

// withLog adds to an error about a component the relevant lines of its log, and what to do if that
// is known.
func (f *Fleet) withLog(err error, component string) error {
	path := f.layout.Log(component)
	lines := relevant(tailLog(path))
	var b strings.Builder
	switch { // errors of the kernel, as every program logs them
	case strings.Contains(lines, syscall.ENOSPC.Error()):
		fmt.Fprintf(&b, "\nThe disk of %s is full. Delete files and run \"starling up\" again.", f.layout.Dir)
	case strings.Contains(lines, syscall.EADDRINUSE.Error()):
		b.WriteString("\nAnother program uses the port of this component. End that program and run \"starling up\" again.")
	}
	fmt.Fprintf(&b, "\nLog: %s", path)
	for line := range strings.Lines(lines) {
		const most = 400
		fmt.Fprintf(&b, "\n  %s", text.Clip(strings.TrimRight(line, "\n"), most))
	}
	return fmt.Errorf("%w%s", err, b.String())
}
