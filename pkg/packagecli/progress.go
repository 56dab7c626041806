package packagecli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// patience is after how long a user is told what we are waiting for.
	patience = 2 * time.Second
	// eraseLine takes back what stands in the last line of a terminal.
	eraseLine = "\r\x1b[K"
)

// progress tells a terminal what takes so long. On anything else it says nothing.
type progress struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	what  string
	shown bool
	ended bool
	quit  chan struct{}
	done  chan struct{}
}

// startProgress begins to wait for something; the caller ends it with stop.
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
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-ticker.C:
			ticker.Reset(time.Second)
			p.mu.Lock()
			if !p.ended {
				p.shown = true
				fmt.Fprintf(p.out, "%s%s … %s", eraseLine, p.what, now.Sub(began).Truncate(time.Second))
			}
			p.mu.Unlock()
		}
	}
}

// set says what is being waited for now.
func (p *progress) set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.what = fmt.Sprintf(format, args...)
}

// above writes what stays, above the line of the progress.
func (p *progress) above(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, eraseLine)
		p.shown = false
	}
	write()
}

// stop takes the line back. It may be called more than once.
func (p *progress) stop() {
	p.above(func() {
		if !p.ended {
			p.ended = true
			close(p.quit)
		}
	})
	<-p.done
}
