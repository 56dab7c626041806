package tree

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Draw writes the tree as text. Unless all is set, many names are shortened, and objects that are
// alike are one line.
func (n *Node) Draw(w io.Writer, all bool) {
	d := drawing{w: w, all: all, most: 6}
	if all {
		d.most = 1 << 30
	}
	fmt.Fprintln(w, d.line(n))
	d.below(n, "")
}

type drawing struct {
	w   io.Writer
	all bool
	// most bounds the names in a line.
	most int
}

func (d *drawing) below(n *Node, prefix string) {
	next := n.Next
	if n.Kind == Work && !d.all {
		next = fold(next)
	}
	for i, part := range next {
		branch, under := text.Branch(i == len(next)-1)
		fmt.Fprintln(d.w, prefix+branch+d.line(part))
		d.below(part, prefix+under)
	}
}

// line returns the line of a part.
func (d *drawing) line(n *Node) string {
	line := fmt.Sprintf("[%c] ", explain.Mark(n.State))
	switch {
	case n.Kind == Work && len(n.Names) == 0:
		line += "in no ManifestWork"
	case n.Kind == Work && len(n.Names) > 1:
		line += "ManifestWork in each cluster"
	case n.Kind == Cluster && len(n.Names) > 1:
		line += text.Count(len(n.Names), "cluster") + ": " + text.List(n.Names, d.most)
	case n.Kind == Object && len(n.Names) > 1:
		line += text.Count(len(n.Names), "object") + ": " + text.List(n.Names, few)
	case n.Kind == Object:
		line += n.Names[0]
	default:
		line += string(n.Kind) + " " + n.Names[0]
	}
	if n.Kind == Binding || n.Kind == Policy {
		line += counts(n)
	}
	switch {
	case n.Text == "" || n.Kind == Object && n.State == foresight.Good && n.Link != explain.LinkHealthy && n.Link != explain.LinkApplied:
	case n.Kind == Object && n.State == foresight.Good:
		line += "  " + strings.ToLower(n.Link)
	case n.Link != "":
		line += "  " + n.Link + ": " + n.Text
	default:
		line += "  " + n.Text
	}
	return line
}

// counts says how many objects go to how many clusters.
func counts(n *Node) string {
	objects, clusters := map[string]bool{}, map[string]bool{}
	var count func(*Node)
	count = func(n *Node) {
		for _, name := range n.Names {
			switch n.Kind { //nolint:exhaustive // only these are counted
			case Object:
				objects[name] = true
			case Cluster:
				clusters[name] = true
			}
		}
		for _, part := range n.Next {
			count(part)
		}
	}
	count(n)
	if len(clusters) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s in %s)", text.Count(len(objects), "object"), text.Count(len(clusters), "cluster"))
}

// few is how many objects that are alike are shown each.
const few = 3

// fold makes one line of objects with an equal outcome, if they are many.
func fold(objects []*Node) []*Node {
	key := func(n *Node) string {
		if n.State == foresight.Good {
			return n.Link
		}
		return n.Link + "\n" + strings.ReplaceAll(n.Text, n.Names[0], "")
	}
	alike := map[string][]*Node{}
	for _, n := range objects {
		alike[key(n)] = append(alike[key(n)], n)
	}
	var folded []*Node
	for _, n := range objects {
		of := alike[key(n)]
		switch {
		case len(of) <= few:
			folded = append(folded, n)
		case of[0] == n:
			one := *n
			one.Names = nil
			for _, other := range of {
				one.Names = append(one.Names, other.Names...)
			}
			folded = append(folded, &one)
		}
	}
	slices.SortStableFunc(folded, func(a, b *Node) int { return slices.Index(states, a.State) - slices.Index(states, b.State) })
	return folded
}
