package destination

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// Result is what a proposal does to destinations.
type Result struct {
	// Bindings are what changes in Bindings, by policy. Sorted by name.
	Bindings []BindingChange
	// Destinations are the clusters that the Changes concern, sorted by name.
	Destinations []Destination
	// Situations counts the different situations of destinations, each of which was validated once.
	Situations int
}

// BindingChange is what changes in the Bindings of a policy.
type BindingChange struct {
	Policy string
	// Arrive, Change and Leave are CRDs. Sorted.
	Arrive, Change, Leave []objref.Ref
	// Clusters are its destinations, sorted.
	Clusters []string
}

// Destination is a cluster that Changes concern, or that has a package which is updated.
type Destination struct {
	Cluster string
	// Changed are the CRDs that arrive, change or leave there. Sorted.
	Changed []objref.Ref
	// CRDs are those of packages that are there afterwards, sorted, and Packages the sources of
	// these packages, sorted. Both are shared: do not change them.
	CRDs     []objref.Ref
	Packages []string
	// Situation identifies what the findings depend on.
	Situation string
	// Findings are shared by all destinations of one situation: do not change them.
	Findings []Finding
}

// Fails reports whether the change must not reach the destination.
func (d *Destination) Fails() bool {
	return len(d.Findings) > 0 && d.Findings[0].Reason != ""
}

// Evaluate computes what a proposal does to destinations. The error says that a schema cannot be
// compiled, which no API server would accept either.
func Evaluate(ctx context.Context, in *Input) (*Result, error) {
	selections := in.selections()
	audiences := in.audiences(selections)
	result := &Result{Bindings: in.bindings(selections)}
	j := judge{in: in, transitions: map[string]*crdcheck.Transition{}, checked: map[checked]*crdcheck.Checker{}}
	templates := renderer{}
	known := map[string][]Finding{}
	for n := range in.Clusters {
		a := audiences[n]
		if len(a.effects) == 0 && !slices.ContainsFunc(a.packages, in.changes) {
			continue
		}
		s := in.situation(&in.Clusters[n], a, templates)
		hash := s.hash()
		findings, validated := known[hash]
		if !validated {
			var err error
			if findings, err = j.verdict(ctx, s); err != nil {
				return nil, err
			}
			known[hash] = findings
		}
		d := Destination{Cluster: in.Clusters[n].Name, CRDs: a.crds, Packages: a.packages, Situation: hash, Findings: findings}
		for _, e := range a.effects {
			if e.before || e.after {
				d.Changed = append(d.Changed, refOf(in.Changes[e.change].crd().Name))
			}
		}
		slices.SortFunc(d.Changed, objref.Compare)
		result.Destinations = append(result.Destinations, d)
	}
	slices.SortFunc(result.Destinations, func(a, b Destination) int { return strings.Compare(a.Cluster, b.Cluster) })
	result.Situations = j.validated
	return result, nil
}

// changes reports whether the proposal installs or updates a package.
func (in *Input) changes(source string) bool {
	_, changes := in.Packages[source]
	return changes
}

// bindings returns what changes in Bindings.
func (in *Input) bindings(selections []*selection) []BindingChange {
	var changes []BindingChange
	for i, s := range selections {
		change := BindingChange{Policy: in.Policies[i].Name}
		for c := range in.Changes {
			ref := refOf(in.Changes[c].crd().Name)
			switch before, after := s.before[ref], s.after[ref]; {
			case before && after:
				change.Change = append(change.Change, ref)
			case before:
				change.Leave = append(change.Leave, ref)
			case after:
				change.Arrive = append(change.Arrive, ref)
			}
		}
		if len(change.Arrive)+len(change.Change)+len(change.Leave) == 0 {
			continue
		}
		for _, refs := range [][]objref.Ref{change.Arrive, change.Change, change.Leave} {
			slices.SortFunc(refs, objref.Compare)
		}
		for n := range in.Clusters {
			if in.Policies[i].reaches(&in.Clusters[n]) {
				change.Clusters = append(change.Clusters, in.Clusters[n].Name)
			}
		}
		slices.Sort(change.Clusters)
		changes = append(changes, change)
	}
	slices.SortFunc(changes, func(a, b BindingChange) int { return strings.Compare(a.Policy, b.Policy) })
	return changes
}

// Failing returns the names of the destinations that the change must not reach, sorted.
func (r *Result) Failing() []string {
	var names []string
	for i := range r.Destinations {
		if r.Destinations[i].Fails() {
			names = append(names, r.Destinations[i].Cluster)
		}
	}
	return names
}

const (
	clusterLimit = 10 // clusters that one text names
	textLimit    = 10 // texts in one message
)

// Failure returns why the change must not be carried out, nil if it may be. The message names the
// clusters of each finding.
func (r *Result) Failure() *transaction.FailedError {
	findings, clusters := r.grouped(func(f Finding) bool { return f.Reason != "" })
	if len(findings) == 0 {
		return nil
	}
	return &transaction.FailedError{Reason: findings[0].Reason, Message: text.Join(texts(findings, clusters), "; ", textLimit)}
}

// Warnings returns what is not known, and of which clusters.
func (r *Result) Warnings() []string {
	return texts(r.grouped(func(f Finding) bool { return f.Reason == "" }))
}

// grouped returns each finding once, with the clusters that it is about.
func (r *Result) grouped(counts func(Finding) bool) ([]Finding, map[Finding][]string) {
	clusters := map[Finding][]string{}
	for i := range r.Destinations {
		for _, f := range r.Destinations[i].Findings {
			if counts(f) {
				clusters[f] = append(clusters[f], r.Destinations[i].Cluster)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(clusters), compareFindings), clusters
}

func texts(findings []Finding, clusters map[Finding][]string) []string {
	var all []string
	for _, f := range findings {
		names := clusters[f]
		all = append(all, text.Plural(len(names), "cluster ", "clusters ")+text.List(names, clusterLimit)+": "+f.Text)
	}
	return all
}
