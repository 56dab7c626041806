package plugin

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	// progressDelay is the time after which the progress line appears.
	progressDelay = 2 * time.Second
	// eraseLine erases the last line of a terminal.
	eraseLine = "\r\x1b[K"
)

// Progress shows what a command waits for, if that takes longer than two seconds: on a terminal in
// one line that changes.
type Progress struct {
	out      io.Writer
	terminal bool
	// lines is true if there is a line for each text when the output is not a terminal.
	lines bool

	mu    sync.Mutex
	what  string
	shown bool
	// printed is the last line.
	printed string
	ended   sync.Once
	quit    chan struct{}
	done    chan struct{}
}

// StartProgress starts a progress line. If the output is not a terminal it shows nothing. Control
// characters in its texts are escaped. The caller must call Stop.
func StartProgress(out io.Writer, terminal bool, format string, args ...any) *Progress {
	return start(&Progress{out: out, terminal: terminal}, format, args...)
}

// StartProgressLines starts a progress line, as StartProgress does. If the output is not a terminal
// it prints a line for each text.
func StartProgressLines(out io.Writer, terminal bool, format string, args ...any) *Progress {
	return start(&Progress{out: out, terminal: terminal, lines: !terminal}, format, args...)
}

func start(p *Progress, format string, args ...any) *Progress {
	p.what, p.quit, p.done = fmt.Sprintf(format, args...), make(chan struct{}), make(chan struct{})
	if !p.terminal && !p.lines {
		close(p.done)
		return p
	}
	go p.run(time.Now())
	return p
}

func (p *Progress) run(began time.Time) {
	defer close(p.done)
	ticker := time.NewTicker(progressDelay)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-ticker.C:
			ticker.Reset(time.Second)
			p.mu.Lock()
			if p.terminal {
				p.shown = true
				fmt.Fprint(p.out, eraseLine+p.fit(fmt.Sprintf("%s … %s", Escape(p.what), now.Sub(began).Truncate(time.Second))))
			} else if p.printed != p.what {
				p.printed = p.what
				fmt.Fprintln(p.out, Escape(p.what))
			}
			p.mu.Unlock()
		}
	}
}

// fit shortens a line to the width of the terminal: of a line that wraps, the last part only could
// be erased.
func (p *Progress) fit(line string) string {
	if file, is := p.out.(*os.File); is {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 10 {
			return text.Clip(line, width-1)
		}
	}
	return line
}

// Set changes the text of the progress line.
func (p *Progress) Set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = fmt.Sprintf(format, args...)
}

// WriteAbove writes permanent output above the progress line.
func (p *Progress) WriteAbove(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, eraseLine)
		p.shown = false
	}
	write()
}

// Stop erases the line. It may be called more than once.
func (p *Progress) Stop() {
	p.ended.Do(func() { close(p.quit) })
	<-p.done
	p.WriteAbove(func() {})
}
