package transport

import (
	"fmt"
	"slices"
	"sync"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

const wayOut = "make the contents equal, or take the object out of one of the two"

// conflictTexts says what users should know of the conflicts at one destination: claims are objects that somebody else
// delivers, disputes those that somebody else wants as well.
func conflictTexts(conflicts []plan.Conflict) (claims, disputes []string) {
	for i := range conflicts {
		c := &conflicts[i]
		switch {
		case c.Ours:
			disputes = append(disputes, fmt.Sprintf("%s: %s wants to deliver it too, with other content; ours stays: %s", c.Ref, party(&c.With), wayOut))
		case c.With.Observe:
			claims = append(claims, fmt.Sprintf("%s: %s is to deliver it next, with other content; ours waits: %s", c.Ref, party(&c.With), wayOut))
		default:
			claims = append(claims, fmt.Sprintf("%s: %s delivers it, with other content; ours waits until that leaves: %s", c.Ref, party(&c.With), wayOut))
		}
	}
	return bound(claims), bound(disputes)
}

// leavingTexts says what is being handed over, and why that does not go on.
func leavingTexts(leaving []plan.HandOver) (texts, failures []string) {
	for i := range leaving {
		h := &leaving[i]
		texts = append(texts, fmt.Sprintf("%s is handed over to %s", h.Ref, party(&h.To)))
		if h.Failed != nil {
			failures = append(failures, fmt.Sprintf("%s: cannot be handed over to %s: %s", h.Ref, party(&h.To), applyError(h.Failed)))
		}
	}
	return bound(texts), bound(failures)
}

// party names whose a stake is.
func party(s *plan.Stake) string {
	text := "this WDS"
	switch {
	case s.WDS == (plan.WDS{}) && s.Source != "":
		text = s.Source + " of this WDS"
	case !s.Ours():
		name := s.WDS.Name
		if name == "" {
			name = string(s.WDS.UID)
		}
		text = fmt.Sprintf("WDS %q", name)
	}
	if s.Binding == "" {
		return fmt.Sprintf("%s (work %s)", text, s.Work)
	}
	return fmt.Sprintf("%s (Binding %q)", text, s.Binding)
}

// fights remember the objects that we and somebody else delivered at the same time. When the other side has stopped, the
// cluster may hold what it wrote last, and look at our work only minutes later: the work is nudged. That is forgotten by a
// restart, and the cluster's own look heals it.
type fights struct {
	mu      sync.Mutex
	objects map[Key]map[objref.Ref]bool
}

// over notes which objects are fought over, and returns the works that hold those that are no more.
func (f *fights) over(key Key, conflicts []plan.Conflict, works []*plan.Work) []*plan.Work {
	now := map[objref.Ref]bool{}
	for i := range conflicts {
		if c := &conflicts[i]; c.Ours && !c.With.Observe {
			now[c.Ref] = true
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.objects[key]
	if len(now) == 0 {
		delete(f.objects, key)
	} else {
		if f.objects == nil {
			f.objects = map[Key]map[objref.Ref]bool{}
		}
		f.objects[key] = now
	}
	var won []*plan.Work
	for _, work := range works {
		if !work.Deleting && slices.ContainsFunc(work.Items, func(item plan.Item) bool {
			return before[item.Ref] && !now[item.Ref] && !item.Observe
		}) {
			won = append(won, work)
		}
	}
	return won
}
