package transport

import (
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// wish is what a Binding asks of one destination.
type wish struct {
	desired *plan.Desired
	// properties are those that templates were expanded with; nil if there are none, or the properties are not known.
	properties *customize.Properties
	// problems are what is wrong with objects at this destination alone. Sorted.
	problems []string
}

// wishAt returns what a Binding asks of one destination: what it asks of all, and what only this one wants otherwise. It does
// not block.
func (s *space) wishAt(p *placement, mailbox string) wish {
	w := wish{desired: p.desired}
	if len(p.templates) > 0 {
		w.desired, w.properties, w.problems = s.expand(p, mailbox)
	}
	w.desired = s.overlay(w.desired, p, mailbox)
	return w
}

// outdated tells whether what was delivered to a destination was expanded with other properties than it has now.
func (s *space) outdated(p *placement, mailbox string, delivered *customize.Properties) bool {
	if len(p.templates) == 0 {
		return false
	}
	destination, _ := s.store.destination(mailbox)
	return delivered == nil || !delivered.Equal(destination.Properties)
}
