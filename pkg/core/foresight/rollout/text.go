package rollout

import (
	"fmt"
	"io"
	"slices"

	"github.com/starlinghq/starling/pkg/core/text"
)

const (
	// maxClusters bounds the names of clusters in a line, and maxLate the reasons that are written.
	maxClusters = 8
	maxLate     = 10
)

// Line says in one line how far the rollout is, and which clusters it waits for.
func (s *Status) Line() string {
	line := fmt.Sprintf("%d of %s %s", s.Reached(), text.Count(s.Copies, "copy|copies"), s.Goal)
	if s.Copies == 0 {
		line = "nothing is delivered yet"
	} else if s.Clusters > 0 {
		line += fmt.Sprintf(" (%s in %s)", text.Count(s.Objects, "object"), text.Count(s.Clusters, "cluster"))
	}
	if s.Leaving > 0 {
		line += fmt.Sprintf(", %s", text.Count(s.Leaving, "copy is|copies are")+" being removed")
	}
	var clusters []string
	for i := range s.Late {
		clusters = append(clusters, s.Late[i].Clusters...)
	}
	slices.Sort(clusters)
	switch clusters = slices.Compact(clusters); {
	case len(clusters) > 0:
		line += "; waits for " + text.List(clusters, maxClusters)
	case len(s.Late) > 0:
		line += "; " + s.Late[0].Text
	}
	return line
}

// Write writes why copies of a result have not arrived, and what to do about it.
func (s *Status) Write(w io.Writer, only Result) {
	var next []string
	n := 0
	for i := range s.Late {
		l := &s.Late[i]
		if l.Result != only {
			continue
		}
		n++
		if n > maxLate {
			continue
		}
		of := ""
		if len(l.Clusters) > 0 {
			of = " in " + text.Plural(len(l.Clusters), "cluster ", "clusters ") + text.List(l.Clusters, maxClusters)
		}
		fmt.Fprintf(w, "%s%s: %s: %s\n", l.Subject, of, l.Link, l.Text)
		for _, fix := range l.Fix {
			if !slices.Contains(next, fix) {
				next = append(next, fix)
			}
		}
	}
	if n > maxLate {
		fmt.Fprintln(w, text.More(n-maxLate))
	}
	text.WriteNext(w, next)
}
