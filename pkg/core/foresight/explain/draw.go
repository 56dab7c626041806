package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Mark returns the sign of a state.
func Mark(s foresight.State) rune { return marks[s] }

var marks = map[foresight.State]rune{foresight.Good: 'x', foresight.Broken: '!', foresight.Waiting: '>', foresight.Unknown: '?'}

// Draw writes the explanation: of each group the links that are not good or, with all, also those
// that are.
func (e *Explanation) Draw(w io.Writer, all bool) {
	if e.Broken == nil {
		fmt.Fprintf(w, "%s.\n", strings.TrimSuffix(e.Answer, "."))
		if !all {
			e.drawNotes(w)
			return
		}
		fmt.Fprintln(w)
	} else {
		fmt.Fprintf(w, "%s\n\n", e.Subject)
	}
	common := e.Links
	if !all {
		common = notGood(common)
	}
	writeLinks(w, common)
	for i := range e.Groups {
		if i > 0 || len(common) > 0 {
			fmt.Fprintln(w)
		}
		e.Groups[i].draw(w, all)
	}
	text.WriteNext(w, e.next())
	e.drawNotes(w)
}

// Change replaces what mends each link.
func (e *Explanation) Change(fix func([]string) []string) {
	change := func(links []foresight.Link) {
		for i := range links {
			links[i].Fix = fix(links[i].Fix)
		}
	}
	change(e.Links)
	for i := range e.Groups {
		change(e.Groups[i].Links)
	}
}

func (e *Explanation) drawNotes(w io.Writer) {
	if len(e.Notes) == 0 {
		return
	}
	fmt.Fprintln(w, "\nNotes:")
	for _, note := range e.Notes {
		fmt.Fprintln(w, "  - "+note)
	}
}

// next returns what mends the first link that is not good of the common chain, or of each group.
func (e *Explanation) next() []string {
	var next []string
	add := func(links []foresight.Link) {
		for i := range links {
			for _, fix := range links[i].Fix {
				if !slices.Contains(next, fix) {
					next = append(next, fix)
				}
			}
		}
	}
	add(e.Links)
	for i := range e.Groups {
		add(e.Groups[i].Links)
	}
	return next
}

func (g *Group) draw(w io.Writer, all bool) {
	heading := "Cluster " + g.Clusters[0]
	if n := len(g.Clusters); n > 1 {
		const most = 12
		heading = fmt.Sprintf("%s: the same: %s", text.Count(n, "cluster"), text.List(g.Clusters, most))
	}
	fmt.Fprintln(w, heading)
	links := g.Links
	if !all {
		if links = notGood(links); len(links) == 0 {
			links = []foresight.Link{Farthest(g.Links)}
		}
	}
	writeLinks(w, links)
}

// Farthest returns the link that shows best that all is good.
func Farthest(links []foresight.Link) foresight.Link {
	for _, name := range []string{LinkHealthy, LinkApplied, LinkDelivered} {
		if i := slices.IndexFunc(links, func(l foresight.Link) bool { return l.Name == name }); i >= 0 {
			return links[i]
		}
	}
	return links[len(links)-1]
}

func notGood(links []foresight.Link) []foresight.Link {
	return slices.DeleteFunc(slices.Clone(links), func(l foresight.Link) bool { return l.State == foresight.Good })
}

func writeLinks(w io.Writer, links []foresight.Link) {
	steps := make([]text.Step, len(links))
	for i := range links {
		steps[i] = text.Step{Mark: Mark(links[i].State), Name: links[i].Name, Detail: links[i].Text}
	}
	text.WriteSteps(w, steps)
}
