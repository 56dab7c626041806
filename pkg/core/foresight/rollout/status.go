package rollout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// Result says how a rollout stands.
type Result string

// Results.
const (
	// Waiting: some copies are on their way.
	Waiting Result = "Waiting"
	// Arrived: all copies have reached the goal.
	Arrived Result = "Arrived"
	// Failed: some copy does not go on until somebody acts.
	Failed Result = "Failed"
	// Unknown: what is necessary cannot be read, so that it will not be known whether they arrive.
	Unknown Result = "Unknown"
)

// Status is how far a rollout is.
type Status struct {
	Result Result `json:"result"`
	// Goal is the stage that is waited for.
	Goal Stage `json:"goal"`
	// Objects and Clusters are those of the copies.
	Objects  int `json:"objects"`
	Clusters int `json:"clusters"`
	// Copies are objects, once for each cluster. Delivered, Applied and Healthy of them are at that
	// stage or beyond.
	Copies    int `json:"copies"`
	Delivered int `json:"delivered"`
	Applied   int `json:"applied"`
	Healthy   int `json:"healthy"`
	// Leaving are copies that mailboxes still have, and that no Binding lists.
	Leaving int `json:"leaving"`
	// Late says what is not there yet, and why: the worst first.
	Late []Late `json:"late,omitempty"`
}

// Reached returns how many copies have reached the goal.
func (s *Status) Reached() int {
	return map[Stage]int{Delivered: s.Delivered, Applied: s.Applied, Healthy: s.Healthy}[s.Goal]
}

// Late are copies of one object that are not there for the same reason.
type Late struct {
	// Subject is the object, or the policy.
	Subject string `json:"subject"`
	// Clusters are sorted; there are none if the reason is the same for all.
	Clusters []string `json:"clusters,omitempty"`
	// Result is Waiting, Failed or Unknown.
	Result Result `json:"result"`
	// Link is the one of an explanation that is not good, Text what it says of the first of the
	// clusters, and Fix what mends it.
	Link string   `json:"link"`
	Text string   `json:"text"`
	Fix  []string `json:"fix,omitempty"`
}

// Facts are what is known at one moment of what is waited for.
type Facts struct {
	Policies []*explain.Policy
	// Objects are those that are named, and those that the Bindings of the policies list. Of the
	// latter, those that are Done may be missing.
	Objects []*explain.Object
}

// Notes says which settings of controllers are not known.
func (f *Facts) Notes() []string {
	switch {
	case len(f.Policies) > 0:
		return f.Policies[0].Settings.Notes()
	case len(f.Objects) > 0:
		return f.Objects[0].Settings.Notes()
	}
	return nil
}

// late collects what is not there yet.
type late struct {
	all map[string]*Late
}

// add adds a link that is not good: of a cluster, or of all with "".
func (c *late) add(subject, cluster string, result Result, l *foresight.Link) {
	key := strings.Join([]string{subject, string(result), l.Name, explain.Mask(l.Text, cluster)}, "\n")
	one := c.all[key]
	if one == nil {
		one = &Late{Subject: subject, Result: result, Link: l.Name, Text: l.Text, Fix: l.Fix}
		c.all[key] = one
	}
	if cluster == "" {
		return
	}
	if len(one.Clusters) > 0 && cluster < one.Clusters[0] {
		one.Text, one.Fix = l.Text, l.Fix
	}
	at, _ := slices.BinarySearch(one.Clusters, cluster)
	one.Clusters = slices.Insert(one.Clusters, at, cluster)
}

func (c *late) sorted() []Late {
	var list []Late
	for _, one := range c.all {
		list = append(list, *one)
	}
	rank := func(r Result) int { return slices.Index([]Result{Failed, Unknown, Waiting}, r) }
	slices.SortFunc(list, func(a, b Late) int {
		return cmp.Or(cmp.Compare(rank(a.Result), rank(b.Result)), strings.Compare(a.Subject, b.Subject), strings.Compare(a.Link, b.Link),
			slices.Compare(a.Clusters, b.Clusters), strings.Compare(a.Text, b.Text))
	})
	return list
}

// copyKey names a copy; the cluster is "" for what all have in common.
type copyKey struct {
	ref     objref.Ref
	cluster string
	// removal: it is about clusters that it leaves.
	removal bool
}
