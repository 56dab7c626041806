package space

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// progress shows what a command does, a line for each step that is done, with its time. It is safe
// for concurrent use.
type progress struct {
	out      io.Writer
	terminal bool
	clock    clock.Clock
	began    time.Time

	mu    sync.Mutex
	steps []Step
}

// Step is a step of a command that is done.
type Step struct {
	Name string `json:"name"`
	// Began and Took are in seconds; Began counts from the start of the command.
	Began float64 `json:"began"`
	Took  float64 `json:"took"`
}

func newProgress(out io.Writer, terminal bool, c clock.Clock) *progress {
	return &progress{out: out, terminal: terminal, clock: c, began: c.Now()}
}

// step runs do and shows that it is done. A failed step shows nothing: its error is shown once, at
// the end.
func (p *progress) step(name string, do func() error) error {
	began := p.clock.Now()
	if err := do(); err != nil {
		return err
	}
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, Step{
		Name: name, Began: seconds(began.Sub(p.began)), Took: seconds(now.Sub(began)),
	})
	mark := ""
	if p.terminal {
		mark = "\033[32m✓\033[0m "
	}
	fmt.Fprintf(p.out, "%s%5.1fs  %s (%.1fs)\n", mark, now.Sub(p.began).Seconds(), name, now.Sub(began).Seconds())
	return nil
}

// say shows a line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func (p *progress) elapsed() time.Duration { return p.clock.Since(p.began) }

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
