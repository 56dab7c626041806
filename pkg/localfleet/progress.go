package localfleet

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// progress prints the steps of a command: a line for each step when it is done, with its duration.
// It is safe for concurrent use.
type progress struct {
	out      io.Writer
	terminal bool
	clock    clock.Clock
	began    time.Time

	mu    sync.Mutex
	steps []Step
}

// Step is a completed step of a command.
type Step struct {
	Name string `json:"name"`
	// Began is the start of the step after the start of the command, Took its duration, both in
	// seconds.
	Began float64 `json:"began"`
	Took  float64 `json:"took"`
}

// step runs do, and prints a line when it is done. It prints nothing if do fails: the command
// prints the error once, at its end.
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

// printf prints a line.
func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format+"\n", args...)
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
