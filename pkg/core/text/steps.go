package text

import (
	"fmt"
	"io"
	"strings"
)

// Step is one line of a chain of steps.
type Step struct {
	// Mark is how the step is, one character.
	Mark         rune
	Name, Detail string
}

// WriteSteps writes steps, each on a line, with their names in one column.
func WriteSteps(w io.Writer, steps []Step) {
	width := 0
	for i := range steps {
		width = max(width, len(steps[i].Name))
	}
	for i := range steps {
		s := &steps[i]
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("[%c] %-*s  %s", s.Mark, width, s.Name, s.Detail), " "))
	}
}

// WriteNext writes what to do: sentences, and commands that can be copied. It writes nothing if
// there is nothing to do.
func WriteNext(w io.Writer, next []string) {
	if len(next) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWhat to do:")
	for _, step := range next {
		if strings.HasPrefix(step, "kubectl") {
			step = "  " + step
		}
		fmt.Fprintln(w, "  "+step)
	}
}
