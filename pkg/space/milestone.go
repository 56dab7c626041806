package space

import (
	"context"
	"sync"
)

// milestone is something that happens once and that others wait for.
type milestone struct {
	once sync.Once
	done chan struct{}
}

func newMilestone() *milestone { return &milestone{done: make(chan struct{})} }

func (m *milestone) reach() { m.once.Do(func() { close(m.done) }) }

func (m *milestone) wait(ctx context.Context) error {
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
