package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/foresight"
)

// Names of links, in their order. Those of a cluster are in package foresight.
const (
	LinkExists     = "Exists"
	LinkWorkload   = "Workload"
	LinkSelected   = "Selected"
	LinkSynced     = "Synced"
	LinkListed     = "Listed"
	LinkCluster    = "Destination"
	LinkFree       = "NotHeld"
	LinkRendered   = "Rendered"
	LinkDelivered  = "Delivered"
	LinkApplied    = "Applied"
	LinkReported   = "Reported"
	LinkHealthy    = "Healthy"
	LinkReturned   = "Returned"
	LinkPublished  = "Published"
	LinkBound      = "Bound"
	LinkObjects    = "Objects"
	LinkClusters   = "Clusters"
	LinkValid      = "Valid"
	LinkRepository = "Repository"
	LinkLatest     = "Latest"
	LinkRemoved    = "Removed"
)

// Explanation is the way of something through a fleet.
type Explanation struct {
	// Subject is what is explained.
	Subject string `json:"subject"`
	// Links are those that all clusters have in common.
	Links []foresight.Link `json:"links,omitempty"`
	// Groups are the clusters, those with an equal outcome together, the worst first. There are
	// none if a common link is broken.
	Groups []Group `json:"groups,omitempty"`
	// Answer says in one sentence what is the case.
	Answer string `json:"answer"`
	// Broken is the first link that is not good; nil if all are. Of several groups it is that of
	// the worst.
	Broken *foresight.Link `json:"broken,omitempty"`
	// Notes has what else is to be said: of policies that select the object and do not deliver it,
	// though others do.
	Notes []string `json:"notes,omitempty"`
	// Unknown has what could not be read, and what is not known because of it.
	Unknown []string `json:"unknown,omitempty"`
}

// Group are clusters with an equal outcome.
type Group struct {
	// Clusters are their names, sorted.
	Clusters []string         `json:"clusters"`
	Links    []foresight.Link `json:"links"`
}

// State returns the state of the first link of a group that is not good.
func (g *Group) State() foresight.State { return stateOf(g.Links) }

func stateOf(links []foresight.Link) foresight.State {
	if first := foresight.First(links); first != nil {
		return first.State
	}
	return foresight.Good
}

// chain collects links, until one is such that what follows cannot be judged.
type chain struct {
	links []foresight.Link
	ended bool
}

// good adds a link that is good.
func (c *chain) good(name, format string, args ...any) {
	c.add(foresight.Link{Name: name, State: foresight.Good, Text: fmt.Sprintf(format, args...)})
}

// end adds a link after which nothing is judged.
func (c *chain) end(l foresight.Link) {
	c.add(l)
	c.ended = true
}

func (c *chain) broken(name, text string, fix ...string) {
	c.end(foresight.Link{Name: name, State: foresight.Broken, Text: text, Fix: fix})
}

func (c *chain) waiting(name, text string, fix ...string) {
	c.end(foresight.Link{Name: name, State: foresight.Waiting, Text: text, Fix: fix})
}

func (c *chain) unknown(name, text string) {
	c.end(foresight.Link{Name: name, State: foresight.Unknown, Text: text})
}

// add adds a link after which the next one is judged.
func (c *chain) add(l foresight.Link) {
	if !c.ended {
		c.links = append(c.links, l)
	}
}

// then runs steps until one ends the chain.
func (c *chain) then(steps ...func(*chain)) {
	for _, step := range steps {
		if c.ended {
			return
		}
		step(c)
	}
}

// rank orders states, the worst first.
func rank(s foresight.State) int {
	return slices.Index([]foresight.State{foresight.Broken, foresight.Unknown, foresight.Waiting, foresight.Good}, s)
}

// placeholder stands for the name of a cluster while outcomes are compared.
const placeholder = "\x00"

// group puts clusters with an equal outcome together. Outcomes are equal if they differ in the name
// of the cluster, in times, and in links that are good.
func group(chains map[string][]foresight.Link) []Group {
	groups := map[string]*Group{}
	for cluster, links := range chains {
		key := outcome(cluster, links)
		g := groups[key]
		if g == nil {
			g = &Group{}
			groups[key] = g
		}
		g.Clusters = append(g.Clusters, cluster)
	}
	var list []Group
	for _, g := range groups {
		slices.Sort(g.Clusters)
		g.Links = chains[g.Clusters[0]]
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(rank(a.State()), rank(b.State())), cmp.Compare(len(a.Links), len(b.Links)), strings.Compare(a.Clusters[0], b.Clusters[0]))
	})
	return list
}

func outcome(cluster string, links []foresight.Link) string {
	var parts []string
	for i := range links {
		if l := &links[i]; l.State != foresight.Good {
			text := l.Text
			if l.Name == foresight.LinkAgent && l.State == foresight.Broken {
				text = "" // ages differ
			}
			parts = append(parts, l.Name, string(l.State), Mask(text, cluster))
		}
	}
	return strings.Join(parts, "\n")
}

// Mask replaces the name of a cluster in a text, where it is a word of its own.
func Mask(text, cluster string) string {
	inWord := func(b byte) bool {
		return b == '-' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
	}
	var b strings.Builder
	for {
		i := strings.Index(text, cluster)
		if i < 0 || cluster == "" {
			return b.String() + text
		}
		end := i + len(cluster)
		b.WriteString(text[:i])
		if i > 0 && inWord(text[i-1]) || end < len(text) && inWord(text[end]) {
			b.WriteString(cluster)
		} else {
			b.WriteString(placeholder)
		}
		text = text[end:]
	}
}

// finish sets what follows from the links.
func (e *Explanation) finish(well string) *Explanation {
	all := slices.Clone(e.Links)
	if e.Broken = foresight.First(e.Links); e.Broken == nil && len(e.Groups) > 0 {
		e.Broken = foresight.First(e.Groups[0].Links)
	}
	for i := range e.Groups {
		all = append(all, e.Groups[i].Links...)
	}
	for i := range all {
		if all[i].State == foresight.Unknown && !slices.Contains(e.Unknown, all[i].Text) {
			e.Unknown = append(e.Unknown, all[i].Text)
		}
	}
	e.Answer = well
	if e.Broken != nil {
		e.Answer = e.Broken.Text
	}
	return e
}
