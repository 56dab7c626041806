package diff

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// context is how many equal lines are shown around a change.
	context = 3
	// maxEdits bounds the search for the shortest difference, whose cost grows with its square. What differs more is shown as one block.
	maxEdits = 1000
	// noNewline follows a last line that does not end in a newline, as in other programs.
	noNewline = "\\ No newline at end of file\n"
)

// edit is a line that stays (' '), goes ('-') or comes ('+').
type edit struct {
	op   byte
	line string
}

// Unified returns the difference of two texts in the unified format, without the lines that name the files; "" if they are equal.
func Unified(before, after string) string {
	if before == after {
		return ""
	}
	edits := compare(lines(before), lines(after))
	var out strings.Builder
	for at := 0; at < len(edits); {
		if edits[at].op == ' ' {
			at++
			continue
		}
		start := max(0, at-context)
		end := at // behind the last change of the hunk
		for i := at; i < len(edits) && i < end+2*context+1; i++ {
			if edits[i].op != ' ' {
				end = i + 1
			}
		}
		stop := min(len(edits), end+context)
		hunk(&out, edits, start, stop)
		at = stop
	}
	return out.String()
}

// hunk writes the edits from start to stop with their heading.
func hunk(out *strings.Builder, edits []edit, start, stop int) {
	from, to := 0, 0
	for _, e := range edits[:start] {
		from += count(e.op != '+')
		to += count(e.op != '-')
	}
	fromLines, toLines := 0, 0
	for _, e := range edits[start:stop] {
		fromLines += count(e.op != '+')
		toLines += count(e.op != '-')
	}
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(from, fromLines), span(to, toLines))
	for _, e := range edits[start:stop] {
		out.WriteByte(e.op)
		out.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			out.WriteString("\n" + noNewline)
		}
	}
}

// span says where lines are: an empty range is named by the line before it.
func span(before, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", before)
	case 1:
		return fmt.Sprintf("%d", before+1)
	default:
		return fmt.Sprintf("%d,%d", before+1, n)
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lines are the lines of a text with their newlines.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, line)
	}
	return all
}

// compare returns how to get from one list of lines to the other.
func compare(before, after []string) []edit {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	edits := make([]edit, 0, max(len(before), len(after)))
	for _, line := range before[:head] {
		edits = append(edits, edit{' ', line})
	}
	edits = append(edits, shortest(before[head:len(before)-tail], after[head:len(after)-tail])...)
	for _, line := range before[len(before)-tail:] {
		edits = append(edits, edit{' ', line})
	}
	return edits
}

// reached is how far one comes in before on each diagonal with d edits; diagonal k (lines gone less lines come) stands at (k+d)/2.
type reached []int

func (r reached) on(k int) int { return r[(k+len(r)-1)/2] }

// step is where one is on diagonal k after one edit more than r, and on which diagonal one was before it.
func (r reached) step(k int) (x, from int) {
	d := len(r) // of what comes next
	if k == -d || k != d && r.on(k-1) < r.on(k+1) {
		return r.on(k + 1), k + 1 // a line of after comes
	}
	return r.on(k-1) + 1, k - 1 // a line of before goes
}

// shortest finds a shortest difference by Myers' algorithm: how far one comes on each diagonal with one edit more.
func shortest(before, after []string) []edit {
	n, m := len(before), len(after)
	var rounds []reached
	for d := range min(n+m, maxEdits) + 1 {
		now := make(reached, d+1)
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				x, _ = rounds[d-1].step(k)
			}
			for x < n && x-k < m && before[x] == after[x-k] {
				x++
			}
			now[(k+d)/2] = x
			if x >= n && x-k >= m {
				return walk(before, after, rounds)
			}
		}
		rounds = append(rounds, now)
	}
	edits := make([]edit, 0, n+m)
	for _, line := range before {
		edits = append(edits, edit{'-', line})
	}
	for _, line := range after {
		edits = append(edits, edit{'+', line})
	}
	return edits
}

// walk goes back from the end; rounds are those before the last.
func walk(before, after []string, rounds []reached) []edit {
	x, y := len(before), len(after)
	var reversed []edit
	for d := len(rounds); d >= 0; d-- {
		fromX, fromY := 0, 0
		if d > 0 {
			_, from := rounds[d-1].step(x - y)
			fromX = rounds[d-1].on(from)
			fromY = fromX - from
		}
		for x > fromX && y > fromY {
			x, y = x-1, y-1
			reversed = append(reversed, edit{' ', before[x]})
		}
		switch {
		case d == 0:
		case x == fromX:
			y--
			reversed = append(reversed, edit{'+', after[y]})
		default:
			x--
			reversed = append(reversed, edit{'-', before[x]})
		}
	}
	slices.Reverse(reversed)
	return reversed
}
