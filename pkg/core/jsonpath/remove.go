package jsonpath

import (
	"iter"
	"math"
	"slices"
)

// Remove removes from the object, in place, everything that any of the paths selects. All paths are
// evaluated on the unchanged object, so that their order has no effect and indices are those of the
// unchanged list. A path that matches nothing, or the whole object, removes nothing.
func Remove(object map[string]any, paths ...Path) {
	var removals removal
	for _, path := range paths {
		if !path.Root() {
			removals.add(object, path.segments)
		}
	}
	removals.apply(object)
}

// removal holds what is removed below a value.
type removal struct {
	whole bool // the value itself is removed
	below map[place]*removal
}

// place is the position of a child: a name in an object, or an index in a list.
type place struct {
	name  string
	index int
}

// add adds everything that the segments select below value.
func (c *removal) add(value any, segments []segment) {
	for at, child := range segments[0].children(value) {
		below := c.below[at]
		if below == nil {
			below = &removal{}
			if c.below == nil {
				c.below = map[place]*removal{}
			}
			c.below[at] = below
		}
		if len(segments) == 1 {
			below.whole = true
			continue
		}
		below.add(child, segments[1:])
	}
}

// apply returns the value without what is removed. Objects are changed in place; lists are copied.
func (c *removal) apply(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for at, below := range c.below {
			if below.whole {
				delete(v, at.name)
				continue
			}
			v[at.name] = below.apply(v[at.name])
		}
	case []any:
		remaining := make([]any, 0, len(v))
		for i, child := range v {
			below := c.below[place{index: i}]
			switch {
			case below == nil:
				remaining = append(remaining, child)
			case !below.whole:
				remaining = append(remaining, below.apply(child))
			}
		}
		return remaining
	}
	return value
}

// children yields the children that the segment selects, each once. If it yielded a child once for
// each matching selector, the cost of nested segments would multiply.
func (s segment) children(value any) iter.Seq2[place, any] {
	return func(yield func(place, any) bool) {
		switch v := value.(type) {
		case map[string]any:
			if len(s) == 1 && s[0].kind == byName {
				if child, ok := v[s[0].name]; ok {
					yield(place{name: s[0].name}, child)
				}
				return
			}
			for name, child := range v {
				if s.selects(child, func(c *selector) bool { return c.kind == byName && c.name == name }) && !yield(place{name: name}, child) {
					return
				}
			}
		case []any:
			for i, child := range v {
				if s.selects(child, func(c *selector) bool { return c.kind == byIndex && (c.index == i || c.index == i-len(v)) }) &&
					!yield(place{index: i}, child) {
					return
				}
			}
		}
	}
}

// selects reports whether a selector selects the child. For names and indices it calls at.
func (s segment) selects(child any, at func(*selector) bool) bool {
	for i := range s {
		switch c := &s[i]; c.kind {
		case byName, byIndex:
			if at(c) {
				return true
			}
		case wildcard:
			return true
		case byFilter:
			if !slices.ContainsFunc(c.filter, func(t test) bool { return !t.holds(child) }) {
				return true
			}
		}
	}
	return false
}

// holds reports whether the test holds for a child. A missing value is not equal to any value.
func (t *test) holds(child any) bool {
	for value := range selected(child, t.path.segments) {
		switch t.operator {
		case exists:
			return true
		case equal:
			return same(value, t.literal)
		case notEqual:
			return !same(value, t.literal)
		}
	}
	return t.operator == notEqual
}

// selected yields what the segments select below value.
func selected(value any, segments []segment) iter.Seq[any] {
	return func(yield func(any) bool) {
		if len(segments) == 0 {
			yield(value)
			return
		}
		for _, child := range segments[0].children(value) {
			for found := range selected(child, segments[1:]) {
				if !yield(found) {
					return
				}
			}
		}
	}
}

// same reports whether a value is equal to a literal. Numbers of different types are compared by
// value.
func same(value, literal any) bool {
	switch v := value.(type) {
	case int64:
		if f, ok := literal.(float64); ok {
			return equalNumbers(v, f)
		}
	case float64:
		if whole, ok := literal.(int64); ok {
			return equalNumbers(whole, v)
		}
	}
	return value == literal // a literal is comparable
}

// equalNumbers compares without rounding.
func equalNumbers(whole int64, f float64) bool {
	return f == math.Trunc(f) && -(1<<63) <= f && f < 1<<63 && int64(f) == whole
}
