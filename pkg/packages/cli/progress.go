package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// progressDelay is the time after which the progress line appears.
	progressDelay = 2 * time.Second
	// eraseLine erases the last line of a terminal.
	eraseLine = "\r\x1b[K"
)

// progress shows on a terminal what a command waits for. If the output is not a terminal it does
// nothing.
type progress struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	what  string
	shown bool
	ended sync.Once
	quit  chan struct{}
	done  chan struct{}
}

// startProgress starts a progress line. The caller must call stop.
func startProgress(out io.Writer, terminal bool, format string, args ...any) *progress {
	p := &progress{out: out, terminal: terminal, what: fmt.Sprintf(format, args...), quit: make(chan struct{}), done: make(chan struct{})}
	if !terminal {
		close(p.done)
		return p
	}
	go p.run(time.Now())
	return p
}

func (p *progress) run(began time.Time) {
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
			p.shown = true
			fmt.Fprintf(p.out, "%s%s … %s", eraseLine, p.what, now.Sub(began).Truncate(time.Second))
			p.mu.Unlock()
		}
	}
}

// set changes the text of the progress line.
func (p *progress) set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = fmt.Sprintf(format, args...)
}

// writeAbove writes permanent output above the progress line.
func (p *progress) writeAbove(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, eraseLine)
		p.shown = false
	}
	write()
}

// stop erases the line. It may be called more than once.
func (p *progress) stop() {
	p.ended.Do(func() { close(p.quit) })
	<-p.done
	p.writeAbove(func() {})
}
