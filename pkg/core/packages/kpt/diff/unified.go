package diff

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// context is the number of equal lines that are shown around a change.
	context = 3
	// maxEdits bounds the search for the shortest difference, whose cost is quadratic. A larger
	// difference is shown as one block.
	maxEdits = 1000
	// noNewline follows a last line that does not end in a newline, as in other programs.
	noNewline = "\\ No newline at end of file\n"
)

// edit is a line that is unchanged (' '), removed ('-') or added ('+').
type edit struct {
	op   byte
	line string
}

// unified returns the difference of two texts in the unified format, without the lines that name
// the files; "" if they are equal.
func unified(before, after string) string {
	if before == after {
		return ""
	}
	edits := compare(slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after)))
	var out strings.Builder
	for at := 0; at < len(edits); {
		if edits[at].op == ' ' {
			at++
			continue
		}
		start := max(0, at-context)
		end := at // after the last change of the hunk
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

// hunk writes the edits from start to stop with their header.
func hunk(out *strings.Builder, edits []edit, start, stop int) {
	from, to := lengths(edits[:start])
	fromLines, toLines := lengths(edits[start:stop])
	fmt.Fprintf(out, "@@ -%s +%s @@\n", span(from, fromLines), span(to, toLines))
	for _, e := range edits[start:stop] {
		out.WriteByte(e.op)
		out.WriteString(e.line)
		if !strings.HasSuffix(e.line, "\n") {
			out.WriteString("\n" + noNewline)
		}
	}
}

// span returns a range of lines in the unified format: an empty range is named by the line before
// it.
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

// lengths returns the numbers of lines before and after some edits.
func lengths(edits []edit) (before, after int) {
	for _, e := range edits {
		if e.op != '+' {
			before++
		}
		if e.op != '-' {
			after++
		}
	}
	return before, after
}

// compare returns the edits from one list of lines to the other.
func compare(before, after []string) []edit {
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	edits := add(nil, ' ', before[:head])
	edits = append(edits, shortest(before[head:len(before)-tail], after[head:len(after)-tail])...)
	return add(edits, ' ', before[len(before)-tail:])
}

// add adds the same edit of several lines.
func add(edits []edit, op byte, lines []string) []edit {
	for _, line := range lines {
		edits = append(edits, edit{op, line})
	}
	return edits
}

// reached holds the furthest position in before on each diagonal with d edits. Diagonal k (removed
// lines minus added lines) is at index (k+d)/2.
type reached []int

func (r reached) on(k int) int { return r[(k+len(r)-1)/2] }

// step returns the position on diagonal k after one more edit than r, and the diagonal before that
// edit.
func (r reached) step(k int) (x, from int) {
	d := len(r) // the number of edits of the result
	if k == -d || k != d && r.on(k-1) < r.on(k+1) {
		return r.on(k + 1), k + 1 // a line of after is added
	}
	return r.on(k-1) + 1, k - 1 // a line of before is removed
}

// shortest returns a shortest difference, by Myers' algorithm: it finds the furthest position on
// each diagonal with one more edit.
func shortest(before, after []string) []edit {
	n, m := len(before), len(after)
	var rounds []reached
	for d := range min(n+m, maxEdits) + 1 {
		current := make(reached, d+1)
		for k := -d; k <= d; k += 2 {
			x := 0
			if d > 0 {
				x, _ = rounds[d-1].step(k)
			}
			for x < n && x-k < m && before[x] == after[x-k] {
				x++
			}
			current[(k+d)/2] = x
			if x >= n && x-k >= m {
				return walk(before, after, rounds)
			}
		}
		rounds = append(rounds, current)
	}
	return add(add(nil, '-', before), '+', after)
}

// walk returns the edits, by walking backwards through the rounds, of which the last is left out.
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
