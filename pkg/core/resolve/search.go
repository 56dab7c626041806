package resolve

import (
	"errors"
	"slices"
)

// ErrTooHard means that the search tried too many combinations of versions. Whether one fits is not
// known.
var ErrTooHard = errors.New("resolve packages: too many combinations of versions; pin some versions more exactly")

const (
	// maxSteps bounds the candidates that one search looks at.
	maxSteps = 1_000_000
	// maxRestarts bounds how often one search starts again in a better order.
	maxRestarts = 1_000
)

// node is a decision. The decisions before it are its parents, so a node is a snapshot of them.
type node struct {
	parent    *node
	variable  *variable
	candidate *candidate
	level     int
	// depth is the length of a chain of dependents.
	depth int
}

// dead is a variable for which no candidate fits after the decisions of a node.
type dead struct {
	after    *node
	variable *variable
}

// frame is a level of the search.
type frame struct {
	variable *variable
	cursor   cursor
	// culprits are the levels that exclude the candidates tried so far.
	culprits levels
	// failed is set if a candidate was chosen, and had to be given up later.
	failed bool
	// dead is where the first of those candidates ended.
	dead *dead
	// rejected counts the candidates that met all demands, and did not fit.
	rejected int
}

// search looks for a candidate of each variable that is demanded.
type search struct {
	*model
	frames   []*frame
	top      *node
	steps    int
	restarts int
	// ahead is set after something was needed that is not known. The search then only collects what
	// else it will need.
	ahead bool
	needs map[Need]bool
	// gather receives the variables for which no candidate fits, while the search looks ahead.
	gather func(*variable)
	// involved are the variables that excluded a candidate.
	involved map[*variable]bool
}

func newSearch(m *model) *search {
	return &search{model: m, needs: map[Need]bool{}, involved: map[*variable]bool{}}
}

// run searches until all is decided, something is needed, or nothing fits: then it returns where.
func (s *search) run() (*dead, error) {
	for {
		v := s.pick()
		if v == nil {
			return nil, nil
		}
		f := &frame{variable: v}
		s.frames = append(s.frames, f)
		for {
			result := s.advance(f)
			if s.steps > maxSteps {
				return nil, ErrTooHard
			}
			if result == fits {
				break
			}
			if result == again {
				s.reset()
				break
			}
			if result == unknown || s.ahead {
				if result == exhausted && s.gather != nil {
					s.gather(f.variable)
				}
				s.ahead = true
				f.variable.skipped = true
				s.frames = s.frames[:len(s.frames)-1]
				break
			}
			end := s.finish(f)
			target := f.culprits.max()
			if target < 0 {
				return end, nil
			}
			f = s.backjump(f, target, end)
		}
	}
}

// result of a frame.
type result int

const (
	// fits: a candidate was chosen.
	fits result = iota
	// exhausted: there is no candidate left.
	exhausted
	// unknown: metadata is missing to continue.
	unknown
	// again: the search learned a better order.
	again
)

// advance chooses the next candidate of a frame.
func (s *search) advance(f *frame) result {
	v := f.variable
	for {
		s.steps++
		if s.steps > maxSteps {
			return exhausted
		}
		next := f.cursor.advance(s.model, v, f.failed)
		if next.need != nil {
			s.needs[*next.need] = true
			return unknown
		}
		if next.candidate == nil {
			return exhausted
		}
		o := s.check(v, next.candidate)
		switch {
		case o.none():
			s.decide(v, next.candidate)
			return fits
		case o.need != nil:
			s.needs[*o.need] = true
			s.lookAhead(f)
			return unknown
		case o.demand != nil:
			s.blame(f, o.demand.by)
			if o.other != nil {
				s.blame(f, o.other.by)
			}
		case o.edge != nil:
			f.rejected++
			if o.edge.to.node == nil {
				break // it is removed, whatever else is decided
			}
			if s.learn(o.edge.to, v) {
				return again
			}
			s.blame(f, o.edge.to.node)
		case o.cycle != nil:
			f.rejected++
			for _, on := range o.cycle[1:] {
				s.blame(f, on.node)
			}
		default:
			f.rejected++
		}
	}
}

// lookAhead asks for as many further candidates as were rejected, so that the number of rounds
// grows more slowly than the number of candidates.
func (s *search) lookAhead(f *frame) {
	for c := f.cursor; f.rejected > 0; {
		s.steps++
		next := c.advance(s.model, f.variable, f.failed)
		if next.candidate == nil {
			return
		}
		if o := s.check(f.variable, next.candidate); o.need != nil {
			s.needs[*o.need] = true
			f.rejected--
		}
	}
}

func (s *search) blame(f *frame, n *node) {
	f.culprits.add(n.level)
	s.involved[n.variable] = true
}

// decide chooses a candidate.
func (s *search) decide(v *variable, c *candidate) {
	v.node = &node{parent: s.top, variable: v, candidate: c, depth: v.depth()}
	if s.top != nil {
		v.node.level = s.top.level + 1
	}
	s.top = v.node
	for i := range c.edges {
		e := &c.edges[i]
		e.to.demands = append(e.to.demands, demand{by: v.node, edge: e})
	}
}

// undo takes the last decision back.
func (s *search) undo() {
	n := s.top
	for i := range slices.Backward(n.candidate.edges) {
		to := n.candidate.edges[i].to
		to.demands = to.demands[:len(to.demands)-1]
	}
	n.variable.node = nil
	s.top = n.parent
}

// finish completes the culprits of a frame that has no candidate left, and returns where it ended.
func (s *search) finish(f *frame) *dead {
	v := f.variable
	s.involved[v] = true
	end := f.dead
	if end == nil {
		end = &dead{after: s.top, variable: v}
	}
	// The package is in the result because of one of the demands.
	var first *demand
	named := v.base
	for i := range v.demands {
		d := &v.demands[i]
		if v.open && d.constraint != nil && d.constraint.digest != "" {
			s.blame(f, d.by) // tags that do not have this digest were not looked at
		}
		if d.optional() {
			continue
		}
		if first == nil {
			first = d
		}
		named = named || f.culprits.has(d.by.level)
	}
	if !named && first != nil {
		s.blame(f, first.by)
	}
	return end
}

// backjump takes back the decisions since a level, which then tries its next candidate. The levels
// between did not matter.
func (s *search) backjump(f *frame, level int, end *dead) *frame {
	for s.top != nil && s.top.level >= level {
		s.undo()
	}
	target := s.frames[level]
	s.frames = s.frames[:level+1]
	target.culprits.addAll(f.culprits)
	target.culprits.remove(level)
	target.failed = true
	target.rejected++
	if target.dead == nil {
		target.dead = end
	}
	return target
}

// reset takes all decisions back.
func (s *search) reset() {
	for s.top != nil {
		s.undo()
	}
	s.frames = s.frames[:0]
	for _, v := range s.all {
		v.skipped = false
	}
}

// learn notes that a variable was decided too early: before a package that requires it. It reports
// whether the search is to start again. It keeps the order free of cycles.
func (s *search) learn(early, dependent *variable) bool {
	if s.ahead || !early.movable() || s.restarts >= maxRestarts {
		return false
	}
	learned := false
	seen := map[*variable]bool{early: true}
	for todo := []*variable{dependent}; len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[v] {
			continue
		}
		seen[v] = true
		if v.node == nil || v.node.level > early.node.level {
			if !slices.Contains(early.after, v) && !comesAfter(v, early) {
				early.after = append(early.after, v)
				learned = true
			}
		}
		for _, d := range v.demands {
			todo = append(todo, d.by.variable)
		}
	}
	if learned {
		s.restarts++
	}
	return learned
}

// comesAfter reports whether a is to be decided after b, also indirectly.
func comesAfter(a, b *variable) bool {
	seen := map[*variable]bool{}
	for todo := []*variable{a}; len(todo) > 0; {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v == b {
			return true
		}
		if !seen[v] {
			seen[v] = true
			todo = append(todo, v.after...)
		}
	}
	return false
}

// pick returns the next variable to decide, or nil: the subject, then what has no choice, then
// dependents before what they require.
func (s *search) pick() *variable {
	var best *variable
	var bestClass, bestDepth int
	for _, v := range s.all {
		if v.node != nil || v.skipped || !v.needed() {
			continue
		}
		if slices.ContainsFunc(v.after, func(u *variable) bool { return u.node == nil && !u.skipped && u.needed() }) {
			continue
		}
		class, depth := v.class(), v.depth()
		if best == nil || class < bestClass || class == bestClass &&
			(depth < bestDepth || depth == bestDepth && v.source < best.source) {
			best, bestClass, bestDepth = v, class, depth
		}
	}
	return best
}

func (v *variable) class() int {
	switch {
	case v.root != nil && v.root.Subject:
		return 0
	case !v.movable():
		return 1
	case v.root != nil:
		return 2
	default:
		return 3
	}
}

// needed reports whether the package is in the result.
func (v *variable) needed() bool {
	return v.base || slices.ContainsFunc(v.demands, func(d demand) bool { return !d.optional() })
}

// depth is the length of the longest known chain of dependents.
func (v *variable) depth() int {
	depth := v.rank
	for _, d := range v.demands {
		depth = max(depth, d.by.depth+1)
	}
	return depth
}
