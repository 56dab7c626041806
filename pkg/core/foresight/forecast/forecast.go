package forecast

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Forecast is what a change does.
type Forecast struct {
	// Policies are those whose Bindings change, or that the change makes blocked, or lets match
	// more clusters that are no destinations, or that are edited and invalid. Sorted by name.
	Policies []Policy `json:"policies,omitempty"`
	// Groups are the clusters that change, those that change alike in one Group; the largest first.
	Groups []Group `json:"groups,omitempty"`
}

// Policy is what changes for one policy.
type Policy struct {
	Name string `json:"name"`
	// Gained and Lost are the clusters that become its destinations, and that no longer are.
	Gained []string `json:"clustersGained,omitempty"`
	Lost   []string `json:"clustersLost,omitempty"`
	// ObjectsGained and ObjectsLost are what its Bindings list in addition, and no longer list.
	ObjectsGained []objref.Ref `json:"objectsGained,omitempty"`
	ObjectsLost   []objref.Ref `json:"objectsLost,omitempty"`
	// Mistakes are those in its spec: its Bindings stay as they are.
	Mistakes []string `json:"mistakes,omitempty"`
	// Blocked is what the removal block holds back because of the change; nil if that is nothing,
	// or if it is held back already.
	Blocked *binding.Loss `json:"removalBlocked,omitempty"`
	// Refused are the clusters that match and are no destinations, each with the reason.
	Refused []string `json:"clustersRefused,omitempty"`
}

// Changes reports whether the Bindings of the policy change.
func (p *Policy) Changes() bool {
	return len(p.Gained)+len(p.Lost)+len(p.ObjectsGained)+len(p.ObjectsLost) > 0
}

// Group is a set of clusters in which everything changes alike.
type Group struct {
	// Package is the package that the objects are in, as namespace/repository/name; "" if they are
	// objects of the WDS.
	Package string `json:"package,omitempty"`
	// Clusters are sorted.
	Clusters []string `json:"clusters"`
	// Items are sorted by object.
	Items []Item `json:"items"`
	// Unavailable are those of the clusters that get nothing now, each with the reason.
	Unavailable []string `json:"unavailable,omitempty"`
	// Works is an estimate of how many works are written in each cluster, and Bytes is the size of
	// the content that is delivered to each.
	Works int `json:"works"`
	Bytes int `json:"bytes"`
	// Warnings are about what the clusters lack for the objects that they get.
	Warnings []string `json:"warnings,omitempty"`
}

// Verb is what happens to an object in a cluster.
type Verb string

// Verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
	// Release: the object is no longer delivered, and the cluster keeps it.
	Release Verb = "release"
	// Keep: the cluster keeps what it has, for the reason in the Item.
	Keep Verb = "keep"
)

// Item is an object that changes in a cluster.
type Item struct {
	Verb Verb       `json:"verb"`
	Ref  objref.Ref `json:"object"`
	Kind string     `json:"kind"`
	// Before and After are what is delivered, nil if nothing is, or if it was not read. The values
	// of Secrets are hidden.
	Before map[string]any `json:"-"`
	After  map[string]any `json:"-"`
	// Fields are the differences between them.
	Fields []Field `json:"fields,omitempty"`
	// Why is why the cluster keeps what it has, who else delivers the object, or what is unknown of
	// its content; "" otherwise.
	Why string `json:"why,omitempty"`
	// Conflict: another source delivers the object with other content.
	Conflict bool `json:"conflict,omitempty"`
	// Error: the cluster keeps what it has because something is wrong, and not because somebody
	// wants that.
	Error bool `json:"error,omitempty"`
}

// Other is what another source delivers of an object to a cluster.
type Other struct {
	// By names the source, as `WDS "b"`.
	By string
	// Content is the hash of the content, without what differs between WDSes.
	Content transform.Hash
}

// Forecast returns what the change does. What Needs returned must have been read: the caller has
// put it into the Objects of the Worlds.
func (c *Comparison) Forecast() *Forecast {
	f := &Forecast{Policies: c.policies()}
	for _, p := range c.pairs {
		f.Groups = append(f.Groups, c.groups(p)...)
	}
	slices.SortStableFunc(f.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Clusters), len(a.Clusters)), strings.Compare(a.Clusters[0], b.Clusters[0]))
	})
	return f
}

// policies returns what changes for policies.
func (c *Comparison) policies() []Policy {
	names := map[string]bool{}
	for _, w := range []*World{c.before.world, c.after.world} {
		for name := range w.Policies {
			names[name] = true
		}
	}
	var policies []Policy
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := Policy{Name: name, Mistakes: c.after.invalid[name]}
		if was, is := c.before.blocked[name], c.after.blocked[name]; is != nil && (was == nil || was.Token != is.Token) {
			p.Blocked = is
		}
		had, has := c.before.listed(name), c.after.listed(name)
		p.Gained, p.Lost = missing(has.clusters, had.clusters), missing(had.clusters, has.clusters)
		p.ObjectsGained, p.ObjectsLost = missingRefs(has.objects, had.objects), missingRefs(had.objects, has.objects)
		if policy := c.after.world.Policies[name]; policy != nil {
			p.Refused = refused(policy, c.after.world)
		}
		same := c.before.world.Policies[name] == c.after.world.Policies[name]
		if p.Changes() || p.Blocked != nil || !same && len(p.Mistakes) > 0 || c.refusesMore(&p) {
			policies = append(policies, p)
		}
	}
	return policies
}

// refusesMore reports whether any of the clusters that match a policy and are no destinations did
// not match before, or was no such cluster.
func (c *Comparison) refusesMore(p *Policy) bool {
	had := c.before.world.Policies[p.Name]
	if had == nil || len(p.Refused) == 0 {
		return len(p.Refused) > 0
	}
	before := refused(had, c.before.world)
	return slices.ContainsFunc(p.Refused, func(cluster string) bool { return !slices.Contains(before, cluster) })
}

// listed returns what the Bindings of a policy list together.
func (s *settled) listed(name string) *listing {
	united := &listing{objects: map[objref.Ref]*controlv1alpha1.DownsyncModulation{}, clusters: map[string]bool{}}
	for _, b := range s.bindings {
		if policyOf(b) != name {
			continue
		}
		l := s.listing(b)
		maps.Copy(united.objects, l.objects)
		maps.Copy(united.clusters, l.clusters)
	}
	return united
}

// missing returns what a has and b has not, sorted.
func missing(a, b map[string]bool) []string {
	var found []string
	for name := range a {
		if !b[name] {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found
}

func missingRefs[V any](a, b map[objref.Ref]V) []objref.Ref {
	var found []objref.Ref
	for ref := range a {
		if _, both := b[ref]; !both {
			found = append(found, ref)
		}
	}
	slices.SortFunc(found, objref.Compare)
	return found
}
