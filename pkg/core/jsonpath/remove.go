package jsonpath

import (
	"iter"
	"math"
	"slices"
)

// Remove removes from the object, in place, everything that any of the paths selects. All of them are read against the object
// as it is before, so their order does not matter and an index means the list before anything was removed. A path that leads
// nowhere removes nothing; one that selects the whole object does not either.
func Remove(object map[string]any, paths ...Path) {
	var cuts cut
	for _, path := range paths {
		if !path.Root() {
			cuts.mark(object, path.segments)
		}
	}
	cuts.apply(object)
}

// cut says what goes below a value.
type cut struct {
	gone  bool // the value itself
	below map[place]*cut
}

// place is where a child is: a name in an object, an index in a list.
type place struct {
	name  string
	index int
}

// mark notes what the segments select below value.
func (c *cut) mark(value any, segments []segment) {
	for at, child := range segments[0].children(value) {
		if len(segments) > 1 && !container(child) {
			continue
		}
		below := c.below[at]
		if below == nil {
			below = &cut{}
			if c.below == nil {
				c.below = map[place]*cut{}
			}
			c.below[at] = below
		}
		if len(segments) == 1 {
			below.gone = true
			continue
		}
		below.mark(child, segments[1:])
	}
}

// apply returns the value without what goes. Objects are changed in place, lists that lose something are made anew.
func (c *cut) apply(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for at, below := range c.below {
			if below.gone {
				delete(v, at.name)
				continue
			}
			v[at.name] = below.apply(v[at.name])
		}
	case []any:
		kept := make([]any, 0, len(v))
		for i, child := range v {
			below := c.below[place{index: i}]
			switch {
			case below == nil:
				kept = append(kept, child)
			case !below.gone:
				kept = append(kept, below.apply(child))
			}
		}
		return kept
	}
	return value
}

func container(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// children yields the children that the segment selects, each once: were they to come once for each selector, nested segments
// would multiply.
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
				if s.takes(child, func(c *selector) bool { return c.kind == byName && c.name == name }) && !yield(place{name: name}, child) {
					return
				}
			}
		case []any:
			for i, child := range v {
				if s.takes(child, func(c *selector) bool { return c.kind == byIndex && (c.index == i || c.index == i-len(v)) }) &&
					!yield(place{index: i}, child) {
					return
				}
			}
		}
	}
}

// takes tells whether a selector selects the child: by its place, which at tells, or as one of many.
func (s segment) takes(child any, at func(*selector) bool) bool {
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

// holds tells whether the test holds for a child. What is not there equals nothing.
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

// same tells whether a value is equal to a literal. Numbers are equal by value, however they are held.
func same(value, literal any) bool {
	switch v := value.(type) {
	case nil, bool, string:
		return v == literal
	case int64:
		switch l := literal.(type) {
		case int64:
			return v == l
		case float64:
			return equalNumbers(v, l)
		}
	case float64:
		switch l := literal.(type) {
		case int64:
			return equalNumbers(l, v)
		case float64:
			return v == l
		}
	}
	return false
}

// equalNumbers compares without rounding.
func equalNumbers(whole int64, f float64) bool {
	return f == math.Trunc(f) && -(1<<63) <= f && f < 1<<63 && int64(f) == whole
}
