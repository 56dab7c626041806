package resolve

import (
	"fmt"
	"slices"
	"strings"
)

// Conflict is why no set of versions is suitable.
type Conflict struct { //nolint:errname // it is a result of solving first, and an error second
	// Reason is a reason of the condition Validated.
	Reason string
	// Message is what is the case, without the steps and the hint.
	Message string
	// Steps are the requirements that lead to it, from what users want down. A user can check each
	// of them.
	Steps []Step
	// Hint is what may help, or empty.
	Hint string
}

// Error returns the message, the steps and the hint in one line.
func (c *Conflict) Error() string {
	text := c.Message
	if steps := c.steps(); steps != "" {
		text += ": " + steps
	}
	if c.Hint != "" {
		text += ". " + c.Hint
	}
	return text
}

// steps returns the steps as text, unless they only repeat the message.
func (c *Conflict) steps() string {
	texts := make([]string, 0, len(c.Steps))
	for _, s := range c.Steps {
		texts = append(texts, s.String())
	}
	if len(texts) == 1 && strings.HasPrefix(c.Message, "Package "+c.Steps[0].Package+" requires") {
		return ""
	}
	return capped(texts)
}

// State is how a version of a package came to be in the result.
type State string

const (
	// Installed means that the version is installed and stays.
	Installed State = "installed"
	// Wanted means that a package object names the version.
	Wanted State = "wanted"
	// Chosen means that the solver chose the version.
	Chosen State = ""
)

// Step is a requirement of a package at a version, or only the package at that version.
type Step struct {
	// Package is how users call the package: by the name of its package object, or by the last
	// segment of its source, or by its source if that would be ambiguous.
	Package string
	Source  string
	Version string
	State   State
	// Requires is how users call the required package. It is empty if the step is only about
	// Package.
	Requires       string
	RequiredSource string
	Constraint     string
}

// String returns a text like "a v1.1.0 (wanted) requires b >=v2".
func (s Step) String() string {
	text := s.Package
	if s.Version != "" {
		text += " " + s.Version
	}
	if s.State != Chosen {
		text += " (" + string(s.State) + ")"
	}
	if s.Requires != "" {
		text += " requires " + s.required()
	}
	return text
}

func (s Step) required() string {
	if s.Constraint == "" || s.Constraint == "*" {
		return s.Requires
	}
	return s.Requires + " " + s.Constraint
}

// maxTexts bounds what a message lists.
const maxTexts = 10

// capped joins the first texts.
func capped(texts []string) string {
	if more := len(texts) - maxTexts; more > 0 {
		return strings.Join(texts[:maxTexts], "; ") + fmt.Sprintf("; and %d more", more)
	}
	return strings.Join(texts, "; ")
}

func namesOf(steps []Step) []string {
	var names []string
	for _, s := range steps {
		names = append(names, s.Package)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// names are how messages call packages.
type names struct {
	roots map[string]*Root
	seen  map[string]bool
	uses  map[string]int
}

func newNames(roots map[string]*Root) *names {
	return &names{roots: roots, seen: map[string]bool{}, uses: map[string]int{}}
}

// add makes a source known, so that names that two sources share are not used.
func (n *names) add(source string) {
	if !n.seen[source] {
		n.seen[source] = true
		n.uses[n.plain(source)]++
	}
}

func (n *names) plain(source string) string {
	if r := n.roots[source]; r != nil && r.Name != "" {
		return r.Name
	}
	return lastSegment(source)
}

func (n *names) of(source string) string {
	if plain := n.plain(source); n.uses[plain] < 2 {
		return plain
	}
	return source
}
